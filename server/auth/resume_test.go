package auth

import (
	"encoding/base64"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rollcall"
)

func newSigner(t testing.TB, secret []byte) *Signer {
	t.Helper()
	s, err := NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func usual() Resume {
	return Resume{Connection: NewConnectionID(), User: "user-12345", Node: "node-7f3a", Stream: 12345, Epoch: "k3m5n7", Expires: time.Unix(1764500000, 0)}
}

func TestAnyNodeWithTheSecretVerifies(t *testing.T) {
	here, there := newSigner(t, secret), newSigner(t, secret)
	want := usual()
	signed := here.Sign(want)
	got, err := there.Verify(signed)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if len(signed) > 96 {
		t.Errorf("a usual secret has %d characters", len(signed))
	}
	if here.Sign(want) != signed {
		t.Error("signing again gives another secret")
	}
	if _, err := newSigner(t, otherSecret).Verify(signed); err == nil {
		t.Error("a node with another secret verifies it")
	}
}

func TestResumeCarriesAnyBytes(t *testing.T) {
	s := newSigner(t, secret)
	text := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.Byte(), 0, rollcall.MaxID).Draw(t, "bytes"))
	})
	rapid.Check(t, func(t *rapid.T) {
		want := Resume{rollcall.ConnectionID(text.Draw(t, "connection")), rollcall.UserID(text.Draw(t, "user")), text.Draw(t, "node"), rapid.Uint64().Draw(t, "stream"), text.Draw(t, "epoch"), time.Time{}}
		if at := rapid.Int64Min(0).Draw(t, "expires"); at > 0 {
			want.Expires = time.Unix(at, 0)
		}
		signed := s.Sign(want)
		got, err := s.Verify(signed)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatal(err, diff)
		}
		if strings.Trim(signed, base64Alphabet) != "" {
			t.Fatalf("%s is not safe in a URL", signed)
		}
	})
	long := strings.Repeat("x", rollcall.MaxID)
	longest := s.Sign(Resume{rollcall.ConnectionID(long), rollcall.UserID(long), long, math.MaxUint64, long, time.Unix(math.MaxInt64, 0)})
	if _, err := s.Verify(longest); err != nil || len(longest) != maxResume {
		t.Errorf("the longest has %d characters of %d: %v", len(longest), maxResume, err)
	}
}

func TestIdsCannotPoseAsTwoFields(t *testing.T) {
	s := newSigner(t, secret)
	seen := map[string]Resume{}
	for _, r := range []Resume{
		{Connection: "k|1", User: "admin"}, {Connection: "k", User: "1|admin"}, {Connection: "k|1|admin"}, {User: "k|1|admin"},
		{Connection: "a", User: "b"}, {Connection: "ab"}, {User: "ab"}, {Connection: "a", Node: "b"}, {Connection: "a", Epoch: "b"},
		{Connection: "a\x01b"}, {Connection: "a", User: "\x01b"}, {Stream: 1}, {Stream: 256}, {Expires: time.Unix(1, 0)}, {Epoch: "\x01"}, {},
	} {
		signed := s.Sign(r)
		if other, ok := seen[signed]; ok {
			t.Errorf("%+v and %+v have one secret", r, other)
		}
		seen[signed] = r
	}
}

func TestEveryChangedBitIsNoticed(t *testing.T) {
	s := newSigner(t, secret)
	b, err := base64.RawURLEncoding.DecodeString(s.Sign(usual()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		if _, err := s.Verify(base64.RawURLEncoding.EncodeToString(b)); err == nil {
			t.Errorf("bit %d may be changed", i)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func TestGarbageIsNoResume(t *testing.T) {
	s := newSigner(t, secret)
	good := s.Sign(Resume{Connection: "c", User: "u"}) // 24 bytes, so every bit of its last character counts
	unsigned := base64.RawURLEncoding.EncodeToString([]byte{resumeLayout, 0, 0, 0, 0, 0})
	for _, signed := range []string{
		"", "A", "AQ", unsigned, good[1:], good[:len(good)-1], good[:len(good)-4], good + "A", good + "AAAA", good + "=", good + "\n", good[:8] + "\r\n" + good[8:], " " + good,
		strings.Repeat("A", 16), strings.Repeat("AQ", 24), strings.Repeat("A", maxResume+1), strings.Repeat("A", 1<<20), "null", "undefined", "é", "\x00", good + "." + good,
	} {
		r, err := s.Verify(signed)
		if told, ok := errors.AsType[*rollcall.Error](err); !ok || told.Code != rollcall.CodeUnauthorized || r != (Resume{}) {
			t.Errorf("%.40q: got %+v, %v", signed, r, err)
		}
	}
}

// Whatever is signed, reading it does not break, even if it is not our layout.
func TestSignedGarbageIsNoResume(t *testing.T) {
	s := newSigner(t, secret)
	for _, body := range []string{"", "\x01", "\x01\x00\x00\x00", "\x01\x00\x00\x00\x00", "\x01\xff", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x01\x05ab", "\x02\x00\x00\x00\x00\x00", "\x01\x00\x00\x00\x00\x00\x00", "\x01\x00\x00\x00\x00\x00\x01\x01", "\x01\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"} {
		if r, err := s.Verify(base64.RawURLEncoding.EncodeToString(s.appendMAC([]byte(body), []byte(body)))); err == nil {
			t.Errorf("%q: got %+v", body, r)
		}
	}
}

func TestConnectionIDsAreNew(t *testing.T) {
	seen := map[rollcall.ConnectionID]bool{}
	for range 1000 {
		id := NewConnectionID()
		if len(id) != 16 || seen[id] || strings.Trim(string(id), base64Alphabet) != "" {
			t.Fatalf("got %q", id)
		}
		seen[id] = true
	}
}

func TestEmptySignerSecretIsRefused(t *testing.T) {
	if _, err := NewSigner(nil); err == nil {
		t.Error("not refused")
	}
}

func FuzzSignerVerify(f *testing.F) {
	s := newSigner(f, secret)
	f.Add(s.Sign(usual()), []byte("\x01\x01a\x01b\x01c\x05\x00"))
	f.Add("", []byte{1})
	f.Fuzz(func(t *testing.T, signed string, body []byte) {
		forged := base64.RawURLEncoding.EncodeToString(append(body[:len(body):len(body)], s.appendMAC(nil, body)...))
		for _, v := range []string{signed, forged} {
			r, err := s.Verify(v)
			if err != nil {
				continue
			}
			// What verifies is what we would sign; lengths may be written in
			// more than one way only by somebody who has the key.
			again, err := s.Verify(s.Sign(r))
			if err != nil || again != r {
				t.Fatalf("%q: got %+v, then %+v, %v", v, r, again, err)
			}
			if v == signed && s.Sign(r) != signed {
				t.Fatalf("%q verifies, and is not what is signed", v)
			}
		}
	})
}

func BenchmarkSign(b *testing.B) {
	s, r := newSigner(b, secret), usual()
	b.ReportAllocs()
	for b.Loop() {
		s.Sign(r)
	}
}

func BenchmarkVerify(b *testing.B) {
	s := newSigner(b, secret)
	signed := s.Sign(usual())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Verify(signed); err != nil {
			b.Fatal(err)
		}
	}
}
