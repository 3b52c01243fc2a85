package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"rollcall"
	"rollcall/store"
)

//go:embed inspect.lua
var inspectLua string

// The server refuses a write of this script, whatever is in it.
var inspectScript = rueidis.NewLuaScriptReadOnly("#!lua flags=no-writes\n" + preludeLua + inspectLua)

var _ store.Inspector = (*Store)(nil)

// Inspect implements [store.Inspector]. It writes nothing, so the lease clock of
// the store does not advance by it.
func (s *Store) Inspect(ctx context.Context, room rollcall.RoomID, user rollcall.UserID) (*rollcall.Inspection, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	p := &s.parts[rollcall.PartitionOf(room)]
	res := inspectScript.Exec(ctx, s.client, []string{p.head},
		s.args(p, "", string(room), string(user), strconv.Itoa(rollcall.MaxInspected)))
	answer, err := res.ToArray()
	if err == nil && len(answer) < 6 {
		err = fmt.Errorf("%d values where 6 are due", len(answer))
	}
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	in := &rollcall.Inspection{Room: room, Users: []rollcall.InspectedUser{}}
	var numbers [4]int64
	for i, at := range [4]int{1, 3, 4, 5} {
		if numbers[i], err = answer[at].AsInt64(); err != nil {
			return nil, fmt.Errorf("inspect: %w", err)
		}
	}
	epoch, errEpoch := answer[0].ToString()
	mode, errMode := answer[2].ToString()
	if err := errors.Join(errEpoch, errMode); err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	in.Epoch, in.Mode, in.Version = rollcall.Epoch(epoch), mode, rollcall.Version(numbers[0])
	in.Count, in.Connections, in.SettlingMs = int(numbers[1]), int(numbers[2]), numbers[3]/1000
	for i := range answer[6:] {
		u, err := inspectUser(&answer[6+i])
		if errors.Is(err, errLayout) {
			s.unknown("a user")
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("inspect: %w", err)
		}
		in.Users = append(in.Users, u)
	}
	slices.SortFunc(in.Users, func(a, b rollcall.InspectedUser) int { return int(min(max(b.Joined-a.Joined, -1), 1)) })
	return in, nil
}

// inspectUser reads {user, record, how long each lease still runs...}.
func inspectUser(m *rueidis.RedisMessage) (u rollcall.InspectedUser, err error) {
	told, err := m.ToArray()
	if err != nil || len(told) < 2 {
		return u, fmt.Errorf("a user cannot be read: %w", err)
	}
	name, errName := told[0].ToString()
	raw, errRaw := told[1].ToString()
	if err := errors.Join(errName, errRaw); err != nil {
		return u, err
	}
	r := newReader(raw)
	n := r.laidOut(8)
	u = rollcall.InspectedUser{User: rollcall.UserID(name), Info: r.object(), Since: r.number(), Joined: rollcall.Version(r.number())}
	r.skip(3)
	for k := r.list(1 << 16); k > 0; k-- {
		w := r.fields(7)
		l := rollcall.InspectedLease{
			Connection: rollcall.ConnectionID(r.text()), Generation: rollcall.Generation(r.number()),
			LeaseMs: r.number() / 1000, Status: rollcall.Status(r.number()).String(), Data: r.object(),
			State: rollcall.InspectedLive,
		}
		r.number() // the version of data
		if r.number() != 0 {
			l.State = rollcall.InspectedClosing
		}
		r.skip(w - 7)
		if i := 2 + len(u.Leases); i < len(told) {
			left, err := told[i].AsInt64()
			if err != nil {
				return u, err
			}
			l.EndsInMs = max(left, 0) / 1000
		}
		u.Leases = append(u.Leases, l)
	}
	r.skip(n - 8)
	u.Fold()
	return u, r.err
}

// Examination is what is found of a store by using it, for whoever judges whether
// it is fit to be one.
type Examination struct {
	Kind    string // standalone, sentinel or cluster
	Servers []Server
	Pings   []time.Duration // round trips, the shortest first
	Echoes  []time.Duration // from a publication to its arrival, the shortest first
	// EchoErr is why publications do not arrive, and ScriptErr why scripts do
	// not run.
	EchoErr, ScriptErr error
	// Ahead is by how much the server's clock is ahead of ours, and Jump by how
	// much more or less time it saw pass between two looks than we did.
	Ahead, Jump time.Duration
}

// Server is one server of a store, as it describes itself.
type Server struct {
	Address string
	Name    string // Redis or Valkey
	Version string
	Fit     bool // new enough
	Info    map[string]string
	// PubSubLimit is the setting client-output-buffer-limit; "" if it is not
	// shown to us.
	PubSubLimit string
	// Slots tells the state of a cluster: ok, or not; "" without one.
	Slots string
}

var errNotTried = errors.New("not tried: the server is too old")

const (
	pings  = 100
	echoes = 10
)

// Examine connects to a store and tries what a node needs of it. It leaves nothing
// there. The error is that of the connection.
func Examine(ctx context.Context, url string) (*Examination, error) {
	option, err := option(url, 5*time.Second)
	if err != nil {
		return nil, err
	}
	// What an older server lacks must not keep it from saying what it is.
	option.DisableRetry = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect to the store: %w", err)
	}
	defer client.Close()
	e := &Examination{Kind: "standalone"}
	publish := "PUBLISH"
	switch client.Mode() {
	case rueidis.ClientModeCluster:
		e.Kind, publish = "cluster", "SPUBLISH"
	case rueidis.ClientModeSentinel:
		e.Kind = "sentinel"
	}
	for address, node := range client.Nodes() {
		s, err := examineServer(ctx, address, node)
		if err != nil {
			return nil, fmt.Errorf("ask the store what it is: %w", err)
		}
		e.Servers = append(e.Servers, s)
	}
	slices.SortFunc(e.Servers, func(a, b Server) int { return strings.Compare(a.Address, b.Address) })
	e.examineTime(ctx, client)
	if slices.ContainsFunc(e.Servers, func(s Server) bool { return !s.Fit }) {
		e.ScriptErr, e.EchoErr = errNotTried, errNotTried
		return e, nil
	}
	s := &Store{o: Options{Timing: rollcall.DefaultTiming()}, client: client, db: option.SelectDB, publish: publish}
	p := &s.parts[0]
	p.prefix = prefix(0)
	p.head = p.prefix + "c"
	e.ScriptErr = inspectScript.Exec(ctx, client, []string{p.head}, s.args(p, "", "-", "", "1")).Error()
	e.Echoes, e.EchoErr = s.echo(ctx, p.prefix+"doctor", publish)
	return e, nil
}

func examineServer(ctx context.Context, address string, node rueidis.Client) (Server, error) {
	text, err := node.Do(ctx, node.B().Info().Build()).ToString()
	if err != nil {
		return Server{}, err
	}
	s := Server{Address: address, Name: "Redis", Info: info(text)}
	s.Version = s.Info["redis_version"]
	s.Fit = atLeast(s.Version, 7, 0)
	if v := s.Info["valkey_version"]; v != "" {
		s.Name, s.Version = "Valkey", v
		s.Fit = atLeast(v, 7, 2)
	}
	// Both may be forbidden, or unknown to a server that others run.
	limits, _ := node.Do(ctx, node.B().ConfigGet().Parameter("client-output-buffer-limit").Build()).AsStrMap()
	if _, all, ok := strings.Cut(limits["client-output-buffer-limit"], "pubsub "); ok {
		s.PubSubLimit = strings.Join(strings.Fields(all)[:min(3, len(strings.Fields(all)))], " ")
	}
	if s.Info["cluster_enabled"] == "1" {
		state, _ := node.Do(ctx, node.B().ClusterInfo().Build()).ToString()
		s.Slots = info(state)["cluster_state"]
	}
	return s, nil
}

// examineTime measures round trips, and compares the server's clock with ours.
func (e *Examination) examineTime(ctx context.Context, client rueidis.Client) {
	var firstAhead time.Duration
	for i := range pings {
		before := time.Now()
		pair, err := client.Do(ctx, client.B().Time().Build()).AsIntSlice()
		took := time.Since(before)
		if err != nil || len(pair) != 2 {
			continue
		}
		e.Pings = append(e.Pings, took)
		ahead := time.UnixMicro(pair[0]*1e6 + pair[1]).Sub(before.Add(took / 2))
		if i == 0 || len(e.Pings) == 1 {
			firstAhead = ahead
		}
		e.Ahead = ahead
		// What the trips themselves may explain is no jump.
		if jump := (ahead - firstAhead).Abs() - took; jump > e.Jump {
			e.Jump = jump
		}
	}
	slices.Sort(e.Pings)
}

// echo publishes as the scripts do and waits for what comes back.
func (s *Store) echo(ctx context.Context, channel, publish string) (times []time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	arrived := make(chan string, echoes)
	subscribed := make(chan struct{})
	subscribe := s.client.B().Subscribe().Channel(channel).Build()
	if publish == "SPUBLISH" {
		subscribe = s.client.B().Ssubscribe().Channel(channel).Build()
	}
	dedicated, release := s.client.Dedicate()
	defer release()
	broken := dedicated.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { arrived <- m.Message },
		OnSubscription: func(rueidis.PubSubSubscription) {
			select {
			case <-subscribed:
			default:
				close(subscribed)
			}
		},
	})
	if err := dedicated.Do(ctx, subscribe).Error(); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	for range echoes {
		at := time.Now()
		if err := s.client.Do(ctx, s.client.B().Arbitrary(publish).Keys(channel).Args("-").Build()).Error(); err != nil {
			return nil, fmt.Errorf("publish: %w", err)
		}
		select {
		case <-arrived:
			times = append(times, time.Since(at))
		case err := <-broken:
			return nil, fmt.Errorf("subscription: %w", err)
		case <-ctx.Done():
			return nil, fmt.Errorf("what is published does not arrive: %w", ctx.Err())
		}
	}
	slices.Sort(times)
	return times, nil
}

// Away reports whether an error of Open or Examine tells that nobody was there, so
// that waiting may help.
func Away(err error) bool {
	if refused, ok := rueidis.IsRedisErr(rootOf(err)); ok {
		word, _, _ := strings.Cut(refused.Error(), " ")
		return word == "LOADING" || word == "CLUSTERDOWN"
	}
	if insecure(err.Error()) {
		return false
	}
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.As(err, &network)
}

// rootOf is the innermost error.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// Fault tells in words of people what an error of Open is about; "" if the error
// says so itself. It asks the server for its version where that may be it.
func Fault(ctx context.Context, url string, err error) string {
	text := err.Error()
	if refused, ok := rueidis.IsRedisErr(rootOf(err)); ok {
		text = refused.Error()
	}
	switch word, _, _ := strings.Cut(text, " "); word {
	case "WRONGPASS":
		return "the store does not take this user and password"
	case "NOAUTH":
		return "the store wants a password"
	case "DENIED":
		return "the store is in protected mode: it takes connections from its own machine alone"
	case "LOADING":
		return "the store is reading its data from disk"
	}
	switch {
	case notRedis(text):
		return "whatever listens there is no Redis"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there"
	case strings.Contains(text, "cluster support disabled"):
		return "several hosts are those of a cluster, and the store is none"
	case strings.Contains(text, "unknown command"), strings.Contains(text, "unknown subcommand"):
		if e, err := Examine(ctx, url); err == nil {
			for i := range e.Servers {
				if s := &e.Servers[i]; !s.Fit {
					return fmt.Sprintf("the store is %s %s; it has to be Redis 7.0 or Valkey 7.2, or newer", s.Name, s.Version)
				}
			}
		}
	}
	return ""
}

// insecure reports whether an error is one of TLS or of a certificate.
func insecure(text string) bool {
	return strings.Contains(text, "tls:") || strings.Contains(text, "x509:")
}

func notRedis(text string) bool { return strings.Contains(text, "unknown message type") }

// Hint is what to do about an error of Open or Examine; "" if nobody knows.
func Hint(err error) string {
	if refused, ok := rueidis.IsRedisErr(rootOf(err)); ok {
		word, _, _ := strings.Cut(refused.Error(), " ")
		switch word {
		case "WRONGPASS":
			return "user or password are wrong: redis://USER:PASSWORD@HOST:PORT, with what is special in them percent-encoded; those of sentinels are ?sentinelUser=USER&sentinelPassword=PASSWORD"
		case "NOAUTH":
			return "it wants a password: redis://:PASSWORD@HOST:PORT; sentinels by ?sentinelPassword=PASSWORD"
		case "NOPERM":
			return "the user lacks rights: it needs ~{p* ~rollcall:* &{p* &rollcall:* +@all -@admin -@dangerous +info"
		case "LOADING":
			return "it is reading its data from disk: try again in a moment"
		case "CLUSTERDOWN":
			return "some of its slots are not served: `redis-cli --cluster check HOST:PORT` tells which"
		case "MASTERDOWN":
			return "it is a replica that has lost its master"
		case "DENIED":
			return "set a password there (requirepass, or ACL SETUSER), and put it into the URL"
		}
		if strings.Contains(refused.Error(), "cluster support disabled") {
			return "name one host; for Sentinel use redis+sentinel://HOST:PORT,.../MASTER"
		}
		return ""
	}
	text := err.Error()
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.As(err, &dns):
		return "the name of the host is not known here"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "is it running, and is the port right? It is 6379 if not given"
	case notRedis(text):
		return "is the port right? It is 6379 if not given"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "it hangs up: is it rediss:// with TLS? Does it ask for a certificate (?cert=FILE&key=FILE)?"
	case strings.Contains(text, "certificate required"), strings.Contains(text, "bad certificate"):
		return "it asks for a certificate of ours: rediss://HOST:PORT?cert=FILE&key=FILE"
	case insecure(text):
		return "redis:// is without TLS, and rediss:// with it, by a certificate that this machine trusts, or one of ?ca=FILE"
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return "nothing answers there: is a firewall in between, or is it rediss:// with TLS?"
	}
	return ""
}
