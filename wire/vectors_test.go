package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"rollcall"
)

const vectors = "../spec/vectors"

// readVectors reads a file of vectors, whose fields must all be known here: a
// typing error in one would otherwise be a test that tests nothing.
func readVectors(t *testing.T, name string, to any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(vectors, name))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func writeVectors(t *testing.T, name string, v any) {
	t.Helper()
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(vectors, name), buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// refusal is the error that a vector expects.
type refusal struct {
	Code  rollcall.Code `json:"code"`
	Limit int           `json:"limit,omitempty"`
}

// checkRefusal compares err with want; nil is none. It reports whether there is
// nothing more to compare.
func checkRefusal(t *testing.T, err error, want *refusal) bool {
	t.Helper()
	if want == nil {
		if err != nil {
			t.Errorf("got error %v, want none", err)
		}
		return err != nil
	}
	var e *rollcall.Error
	if !errors.As(err, &e) {
		t.Errorf("got error %v, want %s", err, want.Code)
		return true
	}
	if got := (refusal{e.Code, e.Limit}); got != *want {
		t.Errorf("got %+v (%s), want %+v", got, e.Detail, *want)
	}
	if e.Detail == "" {
		t.Error("the error says nothing to people")
	}
	return true
}
