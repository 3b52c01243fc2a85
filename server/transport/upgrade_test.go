package transport

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"strings"
	"testing"
)

func TestUpgradeIsRefused(t *testing.T) {
	good := map[string]string{
		"Host": "x", "Upgrade": "websocket", "Connection": "Upgrade",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
	}
	srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		c, err := AcceptWebSocket(w, r, WebSocketOptions{})
		if err == nil {
			c.Close()
		}
	})
	for _, c := range []struct {
		name, line string
		change     map[string]string // "" leaves the field out
		status     string
		want       map[string]string
	}{
		{"POST", "POST /v1/ws HTTP/1.1", nil, "405", map[string]string{"Allow": "GET"}},
		{"HEAD", "HEAD /v1/ws HTTP/1.1", nil, "405", map[string]string{"Allow": "GET"}},
		{"plain GET", "", map[string]string{"Upgrade": "", "Connection": ""}, "426", map[string]string{"Upgrade": "websocket"}},
		{"another upgrade", "", map[string]string{"Upgrade": "h2c"}, "426", map[string]string{"Upgrade": "websocket"}},
		{"a proxy that speaks HTTP/1.0", "GET /v1/ws HTTP/1.0", nil, "426", nil},
		{"a proxy that drops Connection", "", map[string]string{"Connection": "close"}, "400", nil},
		{"version 8", "", map[string]string{"Sec-WebSocket-Version": "8"}, "426", nil},
		{"version left out", "", map[string]string{"Sec-WebSocket-Version": ""}, "426", nil},
		{"no key", "", map[string]string{"Sec-WebSocket-Key": ""}, "400", nil},
		{"short key", "", map[string]string{"Sec-WebSocket-Key": "c2hvcnQ="}, "400", nil},
		{"key that is not base64", "", map[string]string{"Sec-WebSocket-Key": "!!!!!!!!!!!!!!!!!!!!!!=="}, "400", nil},
		{"two keys", "", map[string]string{"X\r\nSec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}, "400", nil},
		{"body", "", map[string]string{"Content-Length": "1"}, "400", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var req strings.Builder
			if c.line == "" {
				c.line = "GET /v1/ws HTTP/1.1"
			}
			req.WriteString(c.line + "\r\n")
			for k, v := range good {
				if _, changed := c.change[k]; !changed {
					req.WriteString(k + ": " + v + "\r\n")
				}
			}
			for k, v := range c.change {
				if v != "" {
					if name, field, two := strings.Cut(k, "\r\n"); two {
						k = name + ": y\r\n" + field
					}
					req.WriteString(k + ": " + v + "\r\n")
				}
			}
			conn := dialRaw(t, srv.Listener.Addr().String())
			io.WriteString(conn, req.String()+"\r\n"+strings.Repeat("x", len(c.change["Content-Length"])))
			r := bufio.NewReader(conn)
			status, _ := r.ReadString('\n')
			head, err := textproto.NewReader(r).ReadMIMEHeader()
			if err != nil {
				t.Fatalf("%q: %v", status, err)
			}
			if _, got, _ := strings.Cut(status, " "); !strings.HasPrefix(got, c.status) {
				t.Errorf("status %q, want %s", status, c.status)
			}
			for k, v := range map[string]string{"Sec-WebSocket-Version": "13", "Access-Control-Allow-Origin": "*"} {
				if got := head.Get(k); got != v {
					t.Errorf("%s = %q, want %q", k, got, v)
				}
			}
			for k, v := range c.want {
				if got := head.Get(k); got != v {
					t.Errorf("%s = %q, want %q", k, got, v)
				}
			}
		})
	}
}

func TestUpgradeIsRefusedOnHTTP2(t *testing.T) {
	srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		AcceptWebSocket(w, r, WebSocketOptions{})
	}, func(srv *httptest.Server) { srv.EnableHTTP2 = true })
	resp, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.StatusCode != 505 {
		t.Errorf("HTTP/%d: %d, want 505 on HTTP/2", resp.ProtoMajor, resp.StatusCode)
	}
}

// The refusal can be worded by the caller, as a problem document say.
func TestRefusalIsTheCallers(t *testing.T) {
	w := httptest.NewRecorder()
	_, err := AcceptWebSocket(w, httptest.NewRequest("GET", "/v1/ws", nil), WebSocketOptions{
		Refuse: func(w http.ResponseWriter, _ *http.Request, status int, detail string) {
			w.WriteHeader(status)
			io.WriteString(w, "ours: "+detail)
		},
	})
	if err == nil || w.Code != 426 || !strings.HasPrefix(w.Body.String(), "ours: ") || w.Header().Get("Sec-WebSocket-Version") != "13" {
		t.Errorf("%d %q %v, error %v", w.Code, w.Body, w.Header(), err)
	}
}

// A writer that cannot be taken over is an error and an answer, no panic.
func TestUpgradeWithoutHijack(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "/v1/ws", nil)
	for k, v := range map[string]string{"Upgrade": "WebSocket", "Connection": "keep-alive, upgrade",
		"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="} {
		r.Header.Set(k, v)
	}
	if _, err := AcceptWebSocket(w, r, WebSocketOptions{}); err == nil || w.Code != 500 {
		t.Errorf("%d, error %v; want 500 and an error", w.Code, err)
	}
}

func TestUpgradeAnswer(t *testing.T) {
	srv := startServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Content-Length", "7")          // of middleware that means well
		w.Header().Set("Connection", "close")          // the same
		w.Header().Set("X-Injected", "a\r\nX-Evil: b") // no field can make another
		c, err := AcceptWebSocket(w, r, WebSocketOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	})
	for _, c := range []struct{ offers, chosen string }{
		{"", ""},
		{"Sec-WebSocket-Protocol: rollcall.v1\r\n", "rollcall.v1"},
		{"Sec-WebSocket-Protocol: rollcall.v1, bearer.eyJh.eyJz.c2ln\r\n", "rollcall.v1"},
		{"Sec-WebSocket-Protocol: bearer.eyJh.eyJz.c2ln\t,\trollcall.v1\r\n", "rollcall.v1"},
		{"Sec-WebSocket-Protocol: bearer.eyJh.eyJz.c2ln\r\nSec-WebSocket-Protocol: rollcall.v1\r\n", "rollcall.v1"},
		{"Sec-WebSocket-Protocol: bearer.eyJh.eyJz.c2ln\r\n", ""},
		{"Sec-WebSocket-Protocol: Rollcall.V1, rollcall.v10\r\n", ""},
		{"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n", ""},
	} {
		conn := dialRaw(t, srv.Listener.Addr().String())
		io.WriteString(conn, strings.TrimSuffix(upgradeRequest, "\r\n")+c.offers+"\r\n")
		r := bufio.NewReader(conn)
		status, _ := r.ReadString('\n')
		head, err := textproto.NewReader(r).ReadMIMEHeader()
		if err != nil || status != "HTTP/1.1 101 Switching Protocols\r\n" {
			t.Fatalf("%q: %q, %v", c.offers, status, err)
		}
		if got := head.Values("Sec-WebSocket-Protocol"); strings.Join(got, "|") != c.chosen {
			t.Errorf("%q: chosen %q, want %q", c.offers, got, c.chosen)
		}
		for k, want := range map[string]string{
			"Sec-WebSocket-Accept": "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", // the example of RFC 6455
			"Upgrade":              "websocket", "Connection": "Upgrade", "Vary": "Origin",
			"Content-Length": "", "Sec-WebSocket-Extensions": "", "X-Evil": "",
		} {
			if got := strings.Join(head.Values(k), "|"); got != want {
				t.Errorf("%q: %s = %q, want %q", c.offers, k, got, want)
			}
		}
	}
}
