//go:build unix

package departures

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// kind is a kind of client.
type kind string

const (
	kindSSE   kind = "SSE with beats"
	kindPlain kind = "plain EventSource"
	kindWS    kind = "WebSocket"
	kindLease kind = "lease without a stream"
)

var kinds = []kind{kindSSE, kindPlain, kindWS, kindLease}

// short is part of the ids of users.
func (k kind) short() string {
	return map[kind]string{kindSSE: "sse", kindPlain: "plain", kindWS: "ws", kindLease: "lease"}[k]
}

// clientEnv holds what a client process is to do.
const clientEnv = "ROLLCALL_DEPARTURES_CLIENT"

// clientConfig is what a client process is to do: be these users, each by a
// connection of its own.
type clientConfig struct {
	URL   string // http://HOST:PORT
	Kind  kind
	Room  string
	Users []string
}

// Commands that a client process takes, a line each.
const (
	sayLeave  = "leave"  // leave explicitly
	sayClose  = "close"  // close as a tab does: a close frame, the end of the stream, a beacon
	sayBeacon = "beacon" // send the closing beacon, then end the stream without more
	sayReload = "reload" // close and come back as a new page
	sayMute   = "mute"   // read on, and never answer
)

// report is a line that a client process writes.
type report struct {
	What string // one of the constants below
	User string
	At   int64 // Unix nanoseconds
	Text string
}

const (
	reportReady   = "ready"   // it is here
	reportProof   = "proof"   // it has given evidence of life; At is when what it answered came in
	reportDoing   = "doing"   // it is about to carry out a command
	reportBye     = "bye"     // the server ended its stream
	reportDropped = "dropped" // its event stream ended without a goodbye
	reportError   = "error"
)

// reporter writes reports. Safe for concurrent use.
type reporter struct {
	mu sync.Mutex
}

func (r *reporter) report(what, user string, at time.Time, text string) {
	line, _ := json.Marshal(report{what, user, at.UnixNano(), text})
	r.mu.Lock()
	defer r.mu.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

// clientMain is the process of a client. It ends with its standard input, or
// when all that it is have gone.
func clientMain() int {
	var c clientConfig
	if err := json.Unmarshal([]byte(os.Getenv(clientEnv)), &c); err != nil {
		fmt.Fprintln(os.Stderr, clientEnv+":", err)
		return 2
	}
	out := new(reporter)
	var sessions []*session
	var wg sync.WaitGroup
	for _, user := range c.Users {
		s := newSession(&c, user, out)
		sessions = append(sessions, s)
		wg.Go(s.run)
	}
	gone := make(chan struct{})
	go func() {
		wg.Wait()
		close(gone)
	}()
	commands := make(chan string)
	go func() {
		defer close(commands)
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			commands <- strings.TrimSpace(lines.Text())
		}
	}()
	for {
		select {
		case <-gone:
			return 0
		case command, ok := <-commands:
			if !ok {
				return 0
			}
			for _, s := range sessions {
				s.obey(command)
			}
		}
	}
}
