package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"
)

// Two write at once: the order is the server's, and who was second is told what
// they missed, without their own.
func TestAChangeOnAnOlderVersionIsNotApplied(t *testing.T) {
	text := newText("ab")
	first, err := text.write(text.epoch, 0, change{ID: "1", Edits: []edit{{From: 1, To: 1, Text: "x"}}})
	if err != nil || first.Version != 1 || len(first.Changes) != 1 {
		t.Fatalf("the first change: %+v, %v", first, err)
	}
	second, err := text.write(text.epoch, 0, change{ID: "2", Edits: []edit{{From: 0, To: 2}}})
	if err != nil || second.Version != 1 || len(second.Changes) != 1 || second.Changes[0].ID != "1" {
		t.Errorf("a change on an older version: %+v, %v; want the first change and nothing else", second, err)
	}
	if got := string(utf16.Decode(text.units)); got != "axb" {
		t.Errorf("the text is %q, want %q", got, "axb")
	}
}

// The changes that a reader is told lead to the text that the server holds, from
// every version; who is too far behind, or holds another text, gets the whole.
func TestNewsLeadToTheText(t *testing.T) {
	text := newText("start 👩‍🚀")
	type held struct {
		version int
		units   []uint16
	}
	var readers []held
	random := rand.New(rand.NewPCG(1, 2))
	for i := range maxChanges + 200 {
		readers = append(readers, held{text.version, text.units})
		n := len(text.units)
		from := random.IntN(n + 1)
		e := edit{From: from, To: min(n, from+random.IntN(3)), Text: []string{"", "a", "bc", "é", "🦊"}[random.IntN(5)]}
		before := text.version
		_, err := text.write(text.epoch, text.version, change{ID: fmt.Sprint(i), Edits: []edit{e}})
		if (err == nil) != (text.version == before+1) {
			t.Fatalf("error %v, and the version went from %d to %d", err, before, text.version)
		}
	}
	want := string(utf16.Decode(text.units))
	for i := 0; i < len(readers); i += 41 {
		r := readers[i]
		news := text.since(text.epoch, r.version)
		if news.Text != nil {
			if text.version-r.version <= maxChanges || *news.Text != want {
				t.Errorf("from version %d of %d: the whole text, %q", r.version, text.version, *news.Text)
			}
			continue
		}
		units := r.units
		for _, c := range news.Changes {
			for _, e := range c.Edits {
				units = append(append(append([]uint16{}, units[:e.From]...), utf16.Encode([]rune(e.Text))...), units[e.To:]...)
			}
		}
		if got := string(utf16.Decode(units)); got != want {
			t.Fatalf("from version %d: %q, want %q", r.version, got, want)
		}
	}
	if news := text.since("another", text.version); news.Text == nil {
		t.Error("who holds another text is told changes of this one")
	}
}

func TestAnEditThatDoesNotFitChangesNothing(t *testing.T) {
	for _, e := range []edit{{From: -1}, {From: 1, To: 0}, {From: 0, To: 4}, {From: 2, To: 2, Text: "x"}, {From: 0, To: 2}} {
		text := newText("a👍")
		if _, err := text.write(text.epoch, 0, change{ID: "1", Edits: []edit{e}}); err == nil || text.version != 0 {
			t.Errorf("%+v: version %d, error %v", e, text.version, err)
		}
	}
	text := newText("")
	long := change{ID: "1", Edits: []edit{{Text: strings.Repeat("a", maxText+1)}}}
	if _, err := text.write(text.epoch, 0, long); err != errTooLong || text.version != 0 {
		t.Errorf("a text over the limit: version %d, error %v", text.version, err)
	}
}

func ask(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestTextsAreBoundedAndOurPagesAlone(t *testing.T) {
	h := New()
	for i := range 2 * maxTexts {
		if w := ask(h, "GET", fmt.Sprintf("/demo/text?room=r%d", i), ""); w.Code != 200 {
			t.Fatalf("GET: %d %s", w.Code, w.Body)
		}
	}
	var n news
	json.Unmarshal(ask(h, "GET", "/demo/text?room=r", "").Body.Bytes(), &n)
	if n.Text == nil || *n.Text != firstText {
		t.Errorf("a new text: %+v", n)
	}
	good := fmt.Sprintf(`{"epoch":%q,"version":0,"id":"1","edits":[{"from":0,"to":0,"text":"x"}]}`, n.Epoch)
	for _, test := range []struct {
		body   string
		header []string
		want   int
	}{
		{good, []string{"Content-Type", "text/plain"}, 415},
		{good, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{`{"edits":[]}`, nil, 400},
		{`nonsense`, nil, 400},
		{strings.Replace(good, `"to":0`, `"to":9999`, 1), nil, 400},
		{strings.Replace(good, `"text":"x"`, `"text":"`+strings.Repeat("x", maxText)+`"`, 1), nil, 413},
		{good, []string{"Sec-Fetch-Site", "same-origin"}, 200},
	} {
		if w := ask(h, "POST", "/demo/text?room=r", test.body, test.header...); w.Code != test.want {
			t.Errorf("%.60s %v: %d, want %d", test.body, test.header, w.Code, test.want)
		}
	}
}

// api stands in for Rollcall: it counts who is in.
type api struct {
	mu   sync.Mutex
	next int
	in   map[string]bool
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, connection, _ := strings.Cut(r.URL.Path, "/connections/")
	switch r.Method {
	case "POST":
		a.next++
		id := fmt.Sprint(a.next)
		a.in[id] = true
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"connection":%q,"resume":"s"}`, id)
	case "DELETE":
		delete(a.in, connection)
		w.WriteHeader(204)
	}
}

func (a *api) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.in)
}

func TestACrowdComesWholeAndGoesWhole(t *testing.T) {
	a := &api{in: make(map[string]bool)}
	h := New()
	h.Serve(a)
	// One of them may have gone for a moment when we look.
	if w := ask(h, "POST", "/demo/crowd?room=r", `{"count":300}`); w.Code != 200 || a.count() < 295 {
		t.Errorf("%d %s: %d are in", w.Code, w.Body, a.count())
	}
	ask(h, "POST", "/demo/crowd?room=other", `{"count":0}`)
	if a.count() < 290 {
		t.Errorf("a crowd elsewhere was sent away, and %d are in", a.count())
	}
	// Each room has one of its own, until there are too many: then the oldest goes.
	for i := range maxCrowds - 1 {
		ask(h, "POST", fmt.Sprintf("/demo/crowd?room=other-%d", i), `{"count":20}`)
	}
	if a.count() < 340 {
		t.Errorf("a crowd elsewhere took the first one away, and %d are in", a.count())
	}
	if ask(h, "POST", "/demo/crowd?room=one-more", `{"count":20}`); a.count() > maxCrowds*20 {
		t.Errorf("there are more than %d crowds: %d are in", maxCrowds, a.count())
	}
	if ask(h, "POST", "/demo/crowd?room=one-more", `{"count":40}`); a.count() > maxCrowds*20+20 {
		t.Errorf("a room has two crowds: %d are in", a.count())
	}
	if ask(h, "POST", "/demo/crowd?room=one-more", `{"count":0}`); a.count() > (maxCrowds-1)*20 {
		t.Errorf("a crowd that was sent home stays: %d are in", a.count())
	}
	h.Close()
	if a.count() != 0 {
		t.Errorf("%d stay", a.count())
	}
	if w := ask(h, "POST", "/demo/crowd?room=r", `{"count":1001}`); w.Code != 400 {
		t.Errorf("too many: %d", w.Code)
	}
}

// A link that is cut ends without a close frame, and the browser is told nothing
// but that.
func TestACutLinkEndsWithoutAWord(t *testing.T) {
	h := New()
	ended := make(chan error, 1)
	srv := httptest.NewServer(h.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/demo/") {
			h.ServeHTTP(w, r)
			return
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			ended <- err
			return
		}
		defer c.Close()
		c.Write([]byte("HTTP/1.1 200 OK\r\n\r\nopen"))
		_, err = rw.ReadByte()
		ended <- err
	})))
	defer srv.Close()
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /v1/ws?link=abc HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200 OK\r\n\r\nopen"))); err != nil {
		t.Fatal(err)
	}
	if w := ask(h, "POST", "/demo/cut?link=other", ""); w.Code != 404 {
		t.Errorf("a link that nobody has: %d", w.Code)
	}
	if w := ask(h, "POST", "/demo/cut?link=abc", ""); w.Code != 204 {
		t.Errorf("cut: %d %s", w.Code, w.Body)
	}
	if err := <-ended; err != io.EOF {
		t.Errorf("the server's side: %v, want the end of all that comes", err)
	}
	for i := range 2 * maxLinks {
		h.links.add(fmt.Sprint(i), nil)
	}
	if len(h.links.conns) > maxLinks || len(h.links.order) > maxLinks {
		t.Errorf("%d links are remembered", len(h.links.conns))
	}
}
