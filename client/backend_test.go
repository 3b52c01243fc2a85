package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall"
	"rollcall/wire"
)

// TestEventsComeBackByThemselves: a stream that ends is opened again, and what was
// lost meanwhile shows as a reset.
func TestEventsComeBackByThemselves(t *testing.T) {
	var streams atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk_1" || r.URL.RequestURI() != "/v1/events?prefix=doc%3A" {
			w.WriteHeader(http.StatusForbidden)
			w.Write(wire.AppendProblem(nil, rollcall.Errorf(rollcall.CodeForbidden, "no"), "id"))
			return
		}
		n := streams.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "retry: 5\n\nevent: reset\ndata: {\"reason\":\"opened\",\"now\":1}\n\n: hb\n\nevent: later\ndata: {}\n\n")
		fmt.Fprintf(w, "event: join\ndata: {\"room\":\"doc:1\",\"epoch\":\"e\",\"version\":%d,\"count\":1,\"user\":\"u%d\"}\n\nid: x\n\n", n, n)
		if n == 1 {
			io.WriteString(w, "event: bye\ndata: {\"reason\":\"draining\",\"reconnectMs\":5}\n\n")
		}
	}))
	defer server.Close()
	c, err := New(Options{URL: server.URL, APIKey: "sk_1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var got []string
	enough := errors.New("enough")
	err = c.Events(ctx, "doc:", func(h *Happening) error {
		if got = append(got, strings.TrimSpace(fmt.Sprint(h.Event, " ", h.User))); len(got) == 4 {
			return enough
		}
		return nil
	})
	if want := []string{"reset", "join u1", "reset", "join u2"}; !errors.Is(err, enough) || !slices.Equal(got, want) {
		t.Errorf("heard %q, %v, want %q", got, err, want)
	}
	other, err := New(Options{URL: server.URL, APIKey: "sk_2"})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var refused *rollcall.Error
	err = other.Events(ctx, "doc:", func(*Happening) error { return nil })
	if !errors.As(err, &refused) || refused.Code != rollcall.CodeForbidden {
		t.Errorf("a bad key: %v, want forbidden at once", err)
	}
}
