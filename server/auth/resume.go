package auth

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"math"
	"sync"
	"time"

	"rollcall"
)

// NewConnectionID is a new id: 96 random bits, 16 characters that are safe in a
// URL. Ids are made here for every open; none is ever taken from a client.
func NewConnectionID() rollcall.ConnectionID {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return rollcall.ConnectionID(base64.RawURLEncoding.EncodeToString(b[:]))
}

// Resume is what the `resume` secret of a connection says: that whoever holds it
// is this connection of this user. Strings may hold any bytes, at most
// [rollcall.MaxID] each.
type Resume struct {
	Connection rollcall.ConnectionID
	User       rollcall.UserID
	Node       string // the node that had the stream
	Stream     uint64 // the stream of the connection, by the node's count
	Epoch      string // the life of the node, or of the store, in which that count is meant; may be ""
	// Expires is the end of the token under which it was given, to a second; zero: none.
	Expires time.Time
}

const (
	resumeLayout = 1 // the first byte, of what follows
	resumeMAC    = 16
	// maxResume is the longest signed form, in characters: six fields with
	// their lengths.
	maxResume = (1 + 4*(2+rollcall.MaxID) + binary.MaxVarintLen64 + 9 + resumeMAC + 2) / 3 * 4
)

// MinSignerSecret is the shortest secret that a [Signer] should have, in bytes.
const MinSignerSecret = 16

// Signer signs and verifies resume secrets. All nodes that have the same secret
// verify what any of them signed; a node with another secret, such as one that
// made its own at random, verifies none of it.
//
// The layout is one byte for the layout, the fields, and the first 16 bytes of an
// HMAC-SHA256 of all of that, in base64url: 30 characters and 4/3 of the strings,
// some 80 for usual ids. Text is preceded by its length, so no id can pose as two
// fields.
//
// Static after NewSigner; safe for concurrent use.
type Signer struct {
	key    []byte
	hashes sync.Pool // of hash.Hash
}

// NewSigner takes a secret of any length but 0; one under [MinSignerSecret] may
// be guessed.
func NewSigner(secret []byte) (*Signer, error) {
	if len(secret) == 0 {
		return nil, errors.New("the secret that signs resume is empty")
	}
	// A key of its own: the same secret may sign other things elsewhere.
	key, err := hkdf.Key(sha256.New, secret, nil, "rollcall resume", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the key that signs resume: %w", err)
	}
	s := &Signer{key: key}
	s.hashes.New = func() any { return hmac.New(sha256.New, key) }
	return s, nil
}

// Sign makes the opaque form, safe in a URL, a header and an SSE id.
func (s *Signer) Sign(r Resume) string {
	b := make([]byte, 0, 128)
	b = append(b, resumeLayout)
	b = appendText(b, string(r.Connection))
	b = appendText(b, string(r.User))
	b = appendText(b, r.Node)
	b = binary.AppendUvarint(b, r.Stream)
	b = appendText(b, r.Epoch)
	if at := r.Expires.Unix(); !r.Expires.IsZero() && at > 0 {
		b = binary.AppendUvarint(b, uint64(at))
	}
	b = s.appendMAC(b, b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// errResume is the one answer to everything that is not a secret of ours.
var errResume = rollcall.Errorf(rollcall.CodeUnauthorized, "the resume secret is not one of this server")

// Verify reads what a [Signer] with the same secret signed. Anything else, of
// any length, is a [*rollcall.Error] with [rollcall.CodeUnauthorized], always
// the same.
func (s *Signer) Verify(signed string) (Resume, error) {
	if len(signed) > maxResume {
		return Resume{}, errResume
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(signed)
	// It passes over line ends: one secret has one form.
	if err != nil || len(signed) != base64.RawURLEncoding.EncodedLen(len(b)) || len(b) <= resumeMAC || b[0] != resumeLayout {
		return Resume{}, errResume
	}
	body, mac := b[:len(b)-resumeMAC], b[len(b)-resumeMAC:]
	var own [sha256.Size]byte
	if !hmac.Equal(mac, s.appendMAC(own[:0], body)) {
		return Resume{}, errResume
	}
	// From here on it is our own writing.
	r, err := parseResume(body[1:])
	if err != nil {
		return Resume{}, errResume
	}
	return r, nil
}

// appendMAC appends the MAC of text to b.
func (s *Signer) appendMAC(b, text []byte) []byte {
	h := s.hashes.Get().(hash.Hash)
	defer s.hashes.Put(h)
	h.Reset()
	h.Write(text)
	n := len(b)
	return h.Sum(b)[:n+resumeMAC]
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errLayout = errors.New("not the layout of a resume secret")

func parseResume(b []byte) (Resume, error) {
	var r Resume
	var err error
	text := func() (s string) {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			err, b = errLayout, nil
			return ""
		}
		s, b = string(b[used:used+int(n)]), b[used+int(n):]
		return s
	}
	r.Connection = rollcall.ConnectionID(text())
	r.User = rollcall.UserID(text())
	r.Node = text()
	stream, used := binary.Uvarint(b)
	if used <= 0 {
		return Resume{}, errLayout
	}
	r.Stream, b = stream, b[used:]
	r.Epoch = text()
	if err != nil {
		return Resume{}, err
	}
	if len(b) == 0 {
		return r, nil
	}
	at, used := binary.Uvarint(b)
	if used != len(b) || at == 0 || at > math.MaxInt64 {
		return Resume{}, errLayout
	}
	r.Expires = time.Unix(int64(at), 0)
	return r, nil
}
