package server

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall"
	"rollcall/server/auth"
	"rollcall/store"
	"rollcall/wire"
)

// backendReader is a stream of events and what it was told.
type backendReader struct {
	t    *testing.T
	conn *fakeConn
}

func (w *world) events(prefix string) *backendReader {
	w.t.Helper()
	r, refused := w.h.events.add(prefix)
	if refused != nil {
		w.t.Fatal(refused)
	}
	b := &backendReader{t: w.t, conn: newFakeConn()}
	r.conn = b.conn
	w.h.wg.Go(r.run)
	return b
}

// told is what was told since the last call, as "event room user reason", with the
// member where there is one.
func (b *backendReader) told() (all []string) {
	b.t.Helper()
	time.Sleep(2 * tickEvery)
	synctest.Wait()
	text, _ := b.conn.take()
	for _, e := range events(text) {
		name, body, _ := strings.Cut(e, " ")
		h, err := wire.DecodeHappening(wire.Event(name), []byte(body))
		if err != nil || h == nil {
			b.t.Fatalf("%s: %v", e, err)
		}
		words := []string{name, string(h.Room), string(h.User), h.Reason.String(), string(h.Reset)}
		if h.Member != nil {
			words = append(words, string(h.Member.Info))
		}
		if h.Bye != nil {
			words = append(words, string(h.Bye.Reason))
		}
		all = append(all, strings.Join(strings.Fields(strings.Join(words, " ")), " "))
	}
	return all
}

func (b *backendReader) want(want ...string) {
	b.t.Helper()
	if got := b.told(); !slices.Equal(got, want) {
		b.t.Errorf("told %q, want %q", got, want)
	}
}

func TestBackEndsAreToldWhoComesAndGoes(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, _ *frailStore) {
		all, docs := w.events(""), w.events("doc:")
		all.want("reset opened")
		docs.want("reset opened")
		ana := w.token(auth.Claims{User: "ana", Info: []byte(`{"name":"Ana"}`)})
		first := w.mustEnter(ana, "doc:1")
		w.mustEnter(ana, "doc:1") // a second tab
		w.mustEnter(w.token(auth.Claims{User: "eve", Hidden: true}), "doc:1")
		bo := w.mustEnter(w.token(auth.Claims{User: "bo"}), "doc:1")
		w.mustEnter(ana, "lobby")
		docs.want(`occupied doc:1`, `join doc:1 ana {"name":"Ana"}`, `join doc:1 bo {}`)
		all.want(`occupied doc:1`, `join doc:1 ana {"name":"Ana"}`, `join doc:1 bo {}`, `occupied lobby`, `join lobby ana {"name":"Ana"}`)
		first.st.c.end(rollcall.ReasonLeft)
		bo.st.c.end(rollcall.ReasonLeft)
		docs.want("leave doc:1 bo left")
		w.wantCall(204, "POST", "/v1/rooms/doc:1/members/ana/kick", testKey, "")
		docs.want("leave doc:1 ana kicked", "vacated doc:1")
		all.want("leave doc:1 bo left", "leave doc:1 ana kicked", "vacated doc:1")
	})
}

// In counts mode users are named and not described, on every store alike.
func TestEventsOfACrowdNameUsersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var ops []rollcall.Op
		for i := range 201 {
			id := fmt.Sprintf("u%03d", i)
			ops = append(ops, rollcall.Op{Kind: rollcall.OpGrant, Room: "r", User: rollcall.UserID(id), Connection: rollcall.ConnectionID(id), Info: []byte(`{"a":1}`)})
		}
		if _, err := w.m.Apply(t.Context(), ops[:200]); err != nil {
			t.Fatal(err)
		}
		r := w.events("")
		r.told()
		if _, err := w.m.Apply(t.Context(), ops[200:]); err != nil {
			t.Fatal(err)
		}
		ops[3].Kind, ops[3].Reason = rollcall.OpEnd, rollcall.ReasonLeft
		if _, err := w.m.Apply(t.Context(), ops[3:4]); err != nil {
			t.Fatal(err)
		}
		r.want("join r u200", "leave r u003 left")
	})
}

func TestEventsTellWhatTheyLost(t *testing.T) {
	tokenWorld(t, func(t *testing.T, w *world, frail *frailStore) {
		r := w.events("")
		r.want("reset opened")
		a, err := w.m.Read(t.Context(), rollcall.Query{Room: "x"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range rollcall.Partitions {
			frail.feed(&rollcall.Frame{Partition: i, Epoch: a.Epoch, Seq: 9, Gap: true})
		}
		// The first is told at once, and the rest of them in one.
		if got := r.told(); len(got) < 1 || len(got) > 2 || got[0] != "reset gap" {
			t.Errorf("told %q, want that there was a gap", got)
		}
		frail.feed(&rollcall.Frame{Partition: 7, Epoch: "another", Seq: 1, Gap: true})
		r.want("reset memory")
	})
}

func TestSlowReaderOfEventsIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.h.limits.EventBacklog = 4096
		slow, quick := w.events(""), w.events("")
		slow.want("reset opened")
		slow.conn.stick(true)
		for i := range 100 {
			w.arrive(fmt.Sprintf("u%02d", i), []rollcall.RoomID{"r"}, nil)
			time.Sleep(tickEvery)
		}
		if n := len(quick.told()); n != 102 {
			t.Errorf("the quick one was told %d events, want all 102", n)
		}
		slow.conn.stick(false)
		time.Sleep(time.Second)
		got := slow.told()
		if len(got) < 3 || got[len(got)-1] != "bye slow" || !slow.conn.isClosed() {
			t.Errorf("the slow one was told %q and closed: %v, want the end", got, slow.conn.isClosed())
		}
		if quick.conn.isClosed() {
			t.Error("the quick one was ended too")
		}

		dead := w.events("")
		dead.want("reset opened")
		dead.conn.stick(true)
		w.arrive("zoe", []rollcall.RoomID{"r"}, nil)
		time.Sleep(slowAfter + time.Second)
		if !dead.conn.isClosed() {
			t.Error("one who takes nothing at all is open still")
		}
	})
}

func TestQuietEventsBeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.events("")
		r.told()
		time.Sleep(time.Minute)
		synctest.Wait()
		text, _ := r.conn.take()
		if n := strings.Count(text, ": hb\n\n"); n < 6 || n > 8 || len(events(text)) != 0 {
			t.Errorf("a minute of silence is %q, want some comments", text)
		}
	})
}

func TestEventsEndWithADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.events("")
		r.told()
		if err := w.s.Drain(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		r.want("bye draining")
		if !r.conn.isClosed() {
			t.Error("the stream is open still")
		}
	})
}

func TestEventStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.h.limits.EventStreams = 2
		first, _ := w.h.events.add("")
		w.events("")
		if _, refused := w.h.events.add(""); refused == nil || refused.Code != rollcall.CodeRateLimited || refused.Limit != 2 {
			t.Errorf("the third: %v, want rate_limited with the limit", refused)
		}
		w.h.events.remove(first)
		w.events("")
	})
}

// TestEventsOverHTTP is the whole way, over a socket.
func TestEventsOverHTTP(t *testing.T) {
	servers, err := auth.NewAPIKeys(auth.APIKey{Name: "test", Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	m := store.NewMemory(store.MemoryOptions{Settled: true})
	defer m.Close()
	s, err := New(Options{Store: m, Auth: auth.Chain(servers, auth.Guests{})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	web := httptest.NewServer(s)
	defer web.Close()
	get := func(key, query string) *http.Response {
		t.Helper()
		r, _ := http.NewRequestWithContext(t.Context(), "GET", web.URL+"/v1/events?"+query, nil)
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	if got := get("", "user=ana").StatusCode; got != 403 {
		t.Errorf("a guest: %d, want 403", got)
	}
	if got := get(testKey, "prefix="+strings.Repeat("a", 257)).StatusCode; got != 400 {
		t.Errorf("a long prefix: %d, want 400", got)
	}
	stream := get(testKey, "prefix=doc")
	if stream.StatusCode != 200 || stream.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", stream.StatusCode, stream.Header)
	}
	var got bytes.Buffer
	until := func(what string) {
		t.Helper()
		b := make([]byte, 4096)
		for !strings.Contains(got.String(), what) {
			n, err := stream.Body.Read(b)
			if got.Write(b[:n]); err != nil {
				t.Fatalf("%v before %q came: %q", err, what, got.String())
			}
		}
	}
	until("\nid: ")
	op := rollcall.Op{Kind: rollcall.OpGrant, Room: "doc", User: "ana", Connection: "c"}
	if _, err := m.Apply(t.Context(), []rollcall.Op{op}); err != nil {
		t.Fatal(err)
	}
	until("event: occupied\ndata: {\"room\":\"doc\"")
	until("event: join\ndata: {\"room\":\"doc\"")
	if s.h.events.open.Load() != 1 {
		t.Errorf("%d readers, want 1", s.h.events.open.Load())
	}
	s.Close()
	if _, err := io.ReadAll(stream.Body); err != nil {
		t.Errorf("the end: %v", err)
	}
}
