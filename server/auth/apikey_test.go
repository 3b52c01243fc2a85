package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"rollcall"
)

func TestServersAreKnownByTheirKeys(t *testing.T) {
	const first, second = "sk_0123456789abcdefghijABCD", "sk_another-key-of-another-length-altogether"
	a, err := NewAPIKeys(APIKey{"web", first}, APIKey{"jobs", second})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{first: "web", second: "jobs"} {
		id, err := authenticate(a, key)
		if err != nil {
			t.Fatal(err)
		}
		if !id.Server() || id.Key != want || id.User != "" || !id.Expires.IsZero() || !id.Can("any", Admin) {
			t.Errorf("got %+v, want the server %s", id, want)
		}
	}
	for _, key := range []string{"sk_", "sk_x", first[:len(first)-1], first + "x", "sk_" + strings.ToUpper(first[3:]), first + "\x00", "sk_" + strings.Repeat("x", MaxToken)} {
		id, err := authenticate(a, key)
		if told, ok := errors.AsType[*rollcall.Error](err); id != nil || !ok || told.Code != rollcall.CodeUnauthorized || errors.Is(err, ErrNotMine) || len(key) > 4 && strings.Contains(told.Detail, key) {
			t.Errorf("%.40s: got %+v, %v", key, id, err)
		}
	}
	for _, from := range []Source{None, Subprotocol, Cookie, Query, Message} {
		if id, err := a.Authenticate(context.Background(), Credentials{Token: first, From: from}); err == nil || errors.Is(err, ErrNotMine) {
			t.Errorf("from %v: got %+v, %v; want it refused", from, id, err)
		}
	}
	for _, token := range []string{"", "SK_x", "ey.a.b", " " + first} {
		if _, err := authenticate(a, token); !errors.Is(err, ErrNotMine) {
			t.Errorf("%q: got %v, want ErrNotMine", token, err)
		}
	}
}

func TestWithoutKeysEveryServerIsRefused(t *testing.T) {
	a, err := NewAPIKeys()
	if err != nil {
		t.Fatal(err)
	}
	if id, err := authenticate(a, "sk_x"); err == nil || errors.Is(err, ErrNotMine) {
		t.Errorf("got %+v, %v", id, err)
	}
}

func TestAPIKeysAreReadByName(t *testing.T) {
	for s, want := range map[string]APIKey{
		"web=sk_abc":       {"web", "sk_abc"},
		"Web-1_a.b=sk_a=b": {"Web-1_a.b", "sk_a=b"},
		"web=sk_abc\n":     {"web", "sk_abc"},
	} {
		got, err := ParseAPIKey(s)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "sk_secret", "=sk_secret", "web", "web=", "web=secret", "web=sk_", "web=sk_se cret", "web=sk_sécret", "we b=sk_secret", "sk_secret=sk_secret", strings.Repeat("n", 65) + "=sk_secret", "a/b=sk_secret"} {
		if k, err := ParseAPIKey(s); err == nil {
			t.Errorf("%q: got %v, want it refused", s, k)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error tells the key: %v", s, err)
		}
	}
	if !(APIKey{"web", "sk_short"}).Weak() || (APIKey{"web", "sk_0123456789abcdefghijABCD"}).Weak() {
		t.Error("weakness is judged wrongly")
	}
}

func TestAPIKeysAreDistinct(t *testing.T) {
	for name, keys := range map[string][]APIKey{
		"one name":  {{"web", "sk_one"}, {"web", "sk_two"}},
		"one key":   {{"web", "sk_one"}, {"jobs", "sk_one"}},
		"not a key": {{"web", "one"}},
	} {
		if _, err := NewAPIKeys(keys...); err == nil {
			t.Errorf("%s: not refused", name)
		} else if strings.Contains(err.Error(), "sk_one") {
			t.Errorf("%s: the error tells the key: %v", name, err)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	const hidden = "hush-hush-hush-hush-hush-hush-hush"
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for _, v := range []any{
		Credentials{Token: hidden, From: Query}, &Credentials{Token: hidden, From: Query},
		APIKey{"web", hidden}, []APIKey{{"web", hidden}}, SecretKey("k", []byte(hidden)), []Key{SecretKey("k", []byte(hidden))},
	} {
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			if got := fmt.Sprintf(format, v); strings.Contains(got, "hush") || strings.Contains(got, "104") {
				t.Errorf("%T with %s: %s", v, format, got)
			}
		}
		logger.Info("x", "v", v)
	}
	if strings.Contains(log.String(), "hush") {
		t.Error(log.String())
	}
}
