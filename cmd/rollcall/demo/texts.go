package demo

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	maxTexts = 64 // the one that was unused for the longest is forgotten
	maxBody  = 64 << 10
	maxRoom  = 256 // bytes
	maxID    = 64  // bytes

	firstText = "Write here together.\n\nOpen this room in a second window and type in both at once. Carets, selections " +
		"and who is typing are signals: each says which version of the text it speaks of, so nobody's caret is ever shown in the wrong place."
)

// texts are the texts of all rooms. Safe for concurrent use.
type texts struct {
	mu    sync.Mutex
	known map[string]*kept // guarded by mu
}

type kept struct {
	*text
	used time.Time
}

// of is the text of a room. The caller holds mu.
func (t *texts) of(room string) *text {
	k := t.known[room]
	if k == nil {
		if len(t.known) >= maxTexts {
			t.forgetOne()
		}
		k = &kept{text: newText(firstText)}
		t.known[room] = k
	}
	k.used = time.Now()
	return k.text
}

func (t *texts) forgetOne() {
	var oldest string
	for room, k := range t.known {
		if o, ok := t.known[oldest]; !ok || k.used.Before(o.used) {
			oldest = room
		}
	}
	delete(t.known, oldest)
}

// read answers GET /demo/text?room=R&epoch=E&since=N with news.
func (t *texts) read(w http.ResponseWriter, r *http.Request) {
	room, ok := roomOf(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	since, err := strconv.Atoi(q.Get("since"))
	if err != nil {
		since = -1
	}
	t.mu.Lock()
	n := t.of(room).since(q.Get("epoch"), since)
	t.mu.Unlock()
	reply(w, n)
}

// write answers POST /demo/text?room=R with {epoch, version, id, edits}: news
// since that version. The change is in it, or has to be moved and sent again.
func (t *texts) write(w http.ResponseWriter, r *http.Request) {
	room, ok := roomOf(w, r)
	if !ok {
		return
	}
	var body struct {
		Epoch   string
		Version int
		change
	}
	if !decode(w, r, &body) {
		return
	}
	if body.ID == "" || len(body.ID) > maxID || len(body.Edits) == 0 || len(body.Edits) > maxEdits {
		http.Error(w, "a change has an id and 1 to 64 edits", http.StatusBadRequest)
		return
	}
	t.mu.Lock()
	n, err := t.of(room).write(body.Epoch, body.Version, body.change)
	t.mu.Unlock()
	switch {
	case errors.Is(err, errTooLong):
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		reply(w, n)
	}
}

func roomOf(w http.ResponseWriter, r *http.Request) (string, bool) {
	room := r.URL.Query().Get("room")
	if room == "" || len(room) > maxRoom {
		http.Error(w, "room has 1 to 256 bytes", http.StatusBadRequest)
		return "", false
	}
	return room, true
}

// decode reads JSON of our own page alone: another site's page cannot name this
// content type without asking first, and is not answered then.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	if r.Header.Get("Content-Type") != "application/json" {
		http.Error(w, "the body is to be application/json", http.StatusUnsupportedMediaType)
		return false
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(into); err != nil {
		http.Error(w, "the body is not what this call takes", http.StatusBadRequest)
		return false
	}
	return true
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(value)
}
