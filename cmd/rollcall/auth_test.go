package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/golang-jwt/jwt/v5"
)

// signer makes a key pair, a file of its public key, and a server of its JWK Set.
func signer(t *testing.T) (private *ecdsa.PrivateKey, file, url string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "keys.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	point, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k1","use":"sig","x":%q,"y":%q}]}`, encode(point[1:33]), encode(point[33:]))
	}))
	t.Cleanup(s.Close)
	return private, file, s.URL
}

func TestTokensOfPublicKeysLetIn(t *testing.T) {
	private, file, url := signer(t)
	claims := jwt.MapClaims{"sub": "ana", "exp": time.Now().Add(time.Hour).Unix(), "rooms": []string{"doc:*"}}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	token.Header["kid"] = "k1"
	good, err := token.SignedString(private)
	if err != nil {
		t.Fatal(err)
	}
	byFile := serving(t, "serve", "--jwt-keys", file)
	byURL := serving(t, "serve", "--jwks-url", url, "--jwt-secret", strings.Repeat("s", 32))
	for _, node := range []string{byFile, byURL} {
		for token, want := range map[string]int{good: 200, good[:len(good)-4] + "AAAA": 401} {
			r, _ := http.NewRequest("GET", "http://"+node+"/v1/rooms/doc:1", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("got %d, want %d", answer.StatusCode, want)
			}
		}
	}
}

// application is the program that knows its users by a cookie of its own.
type application struct {
	mu     sync.Mutex
	asked  []string // bodies
	status int
	life   time.Duration
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, string(body))
	if a.status != 0 {
		w.WriteHeader(a.status)
		return
	}
	session, err := r.Cookie("session")
	if err != nil || r.Method != "POST" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{
		"user": session.Value, "info": map[string]any{"name": "N"}, "rooms": []string{"doc:*"},
		"expiresInMs": a.life.Milliseconds(),
	})
}

func (a *application) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *application) takeAsked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := a.asked
	a.asked = nil
	return asked
}

// stream opens an event stream with headers and returns its events, read until the
// end or until one of a name has come.
func stream(t *testing.T, url, until string, headers ...string) (status int, events []string, close func()) {
	t.Helper()
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(answer.Body)
	name := ""
	for lines.Scan() {
		if n, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = n
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if events = append(events, name+" "+data); name == until {
				break
			}
		}
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer.StatusCode, events, func() { answer.Body.Close() }
}

func resumeOf(t *testing.T, events []string) string {
	t.Helper()
	i := slices.IndexFunc(events, func(e string) bool { return strings.HasPrefix(e, "ready ") })
	if i < 0 {
		t.Fatalf("no ready in %q", events)
	}
	var ready struct{ Resume string }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(events[i], "ready ")), &ready); err != nil {
		t.Fatal(err)
	}
	return ready.Resume
}

func TestTheApplicationIsAskedWhoSomebodyIs(t *testing.T) {
	app := &application{life: time.Hour}
	s := httptest.NewServer(app)
	t.Cleanup(s.Close)
	node := "http://" + serving(t, "serve", "--auth-url", s.URL, "--lease", "10s", "--allowed-origin", "https://app.example.com")
	cookie := []string{"Cookie", "session=ana; other=1"}
	status, events, _ := stream(t, node+"/v1/rooms/doc:1/stream?beat=1", "snapshot", cookie...)
	if status != 200 || !strings.Contains(events[len(events)-1], `"user":"ana"`) {
		t.Fatalf("got %d %q, want ana", status, events)
	}
	if got := app.takeAsked(); !slices.Equal(got, []string{`{"rooms":["doc:1"],"ip":"127.0.0.1"}`}) {
		t.Errorf("asked %q", got)
	}
	resume := resumeOf(t, events)
	for name, tt := range map[string]struct {
		path    string
		headers []string
		want    int
	}{
		"nobody":            {"/v1/rooms/doc:1/stream", nil, 401},
		"another room":      {"/v1/rooms/chat/stream", cookie, 403},
		"another web page":  {"/v1/rooms/doc:1/stream", append([]string{"Origin", "https://evil.example.com"}, cookie...), 403},
		"by its fetch mode": {"/v1/rooms/doc:1/stream", append([]string{"Sec-Fetch-Site", "cross-site"}, cookie...), 403},
		"a read":            {"/v1/rooms/doc:1", cookie, 200},
		"a listed page":     {"/v1/rooms/doc:1", append([]string{"Origin", "https://app.example.com"}, cookie...), 200},
		"no session":        {"/v1/rooms/doc:1", []string{"Cookie", "other=1"}, 401},
	} {
		if status, events, _ := stream(t, node+tt.path, "snapshot", tt.headers...); status != tt.want {
			t.Errorf("%s: got %d %q, want %d", name, status, events, tt.want)
		}
	}
	app.takeAsked()
	socket, _, err := websocket.Dial(t.Context(), node+"/v1/ws", &websocket.DialOptions{
		Subprotocols: []string{"rollcall.v1"}, HTTPHeader: http.Header{"Cookie": {"session=ben"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.CloseNow() })
	if _, first, err := socket.Read(t.Context()); err != nil || !strings.Contains(string(first), `"user":"ben"`) {
		t.Errorf("a WebSocket is told %s, %v", first, err)
	}
	if got := app.takeAsked(); !slices.Equal(got, []string{`{"rooms":[],"ip":"127.0.0.1"}`}) {
		t.Errorf("for a WebSocket: asked %q", got)
	}
	// Who comes back is not asked about again while the answer holds, and comes
	// back even if the application is away.
	app.set(func() { app.status = http.StatusBadGateway })
	_, events, end := stream(t, node+"/v1/rooms/doc:1/stream?beat=1&resume="+resume, "snapshot", cookie...)
	resumeOf(t, events)
	if got := app.takeAsked(); len(got) != 0 {
		t.Errorf("asked %q", got)
	}
	end()
	status, events, _ = stream(t, node+"/v1/rooms/doc:2/stream", "bye", append([]string{"X-Forwarded-For", "192.0.2.1"}, cookie...)...)
	if status != 200 || len(events) != 1 || !strings.HasPrefix(events[0], `bye {"reason":"busy","reconnectMs":`) {
		t.Errorf("while the application is away: %d %q, want to be told to come back", status, events)
	}
}

func TestTheWordOfTheApplicationEnds(t *testing.T) {
	app := &application{life: 300 * time.Millisecond}
	s := httptest.NewServer(app)
	t.Cleanup(s.Close)
	node := "http://" + serving(t, "serve", "--auth-url", s.URL)
	_, events, _ := stream(t, node+"/v1/rooms/doc:1/stream?beat=1", "bye", "Cookie", "session=ana")
	if last := events[len(events)-1]; !strings.HasPrefix(last, `bye {"reason":"rotate","reconnectMs":`) {
		t.Fatalf("got %q, want a rotation", events)
	}
	resume := resumeOf(t, events)
	app.takeAsked()
	app.set(func() { app.life = time.Hour })
	_, events, _ = stream(t, node+"/v1/rooms/doc:1/stream?beat=1&resume="+resume, "snapshot", "Cookie", "session=ana")
	if got := app.takeAsked(); len(got) != 1 {
		t.Errorf("asked %q, want once", got)
	}
	if !strings.Contains(events[len(events)-1], `"count":1`) {
		t.Errorf("got %q", events)
	}
}
