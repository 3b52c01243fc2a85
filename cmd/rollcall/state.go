package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"rollcall/store"
)

// savedState is what --state holds: who is here, and what signs their resume
// secrets, so that they can come back as who they were.
type savedState struct {
	Secret []byte          `json:"secret"`
	Memory json.RawMessage `json:"memory"`
}

// openStore opens the store of a node and settles the secret that goes with it.
func openStore(ctx context.Context, c *checked, log *slog.Logger) (store.Store, []byte, error) {
	if c.Store != "memory" {
		return openRedis(ctx, c, log)
	}
	o := store.MemoryOptions{NoUserIndex: !c.UserIndex, Timing: c.timing, Limits: c.limits, Modes: c.modes, Rules: c.rules}
	if c.State != "" {
		// A stop is too late to learn that nothing can be saved.
		probe, err := createBeside(c.State)
		if err != nil {
			return nil, nil, err
		}
		if err := errors.Join(probe.Close(), os.Remove(probe.Name())); err != nil {
			return nil, nil, failed("", "--state: %w", err)
		}
		memory, secret, err := restoreState(c, o)
		if err != nil || memory != nil {
			return memory, secret, err
		}
	}
	if c.secret == nil {
		c.secret = make([]byte, 32)
		rand.Read(c.secret)
	}
	return store.NewMemory(o), c.secret, nil
}

// restoreState goes on from a saved state, and deletes it: it is good once. The
// memory is nil if there is none.
func restoreState(c *checked, o store.MemoryOptions) (*store.Memory, []byte, error) {
	raw, err := os.ReadFile(c.State)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, failed("", "--state: %w", err)
	}
	var s savedState
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, nil, failed("remove the file to start afresh", "--state %s: not a state of ours: %w", c.State, err)
	}
	memory, err := store.RestoreMemory(o, bytes.NewReader(s.Memory))
	if err != nil {
		return nil, nil, failed("remove the file to start afresh", "--state %s: %w", c.State, err)
	}
	if err := os.Remove(c.State); err != nil {
		return nil, nil, failed("", "--state: %w", err)
	}
	if c.secret != nil {
		s.Secret = c.secret
	}
	return memory, s.Secret, nil
}

// saveState writes the state whole or not at all, for its owner's eyes only.
func saveState(file string, secret []byte, memory *store.Memory) error {
	var b bytes.Buffer
	if err := memory.Save(&b); err != nil {
		return failed("", "--state: %w", err)
	}
	raw, err := json.Marshal(savedState{Secret: secret, Memory: b.Bytes()})
	if err != nil {
		return failed("", "--state: %w", err)
	}
	temporary, err := createBeside(file)
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(raw)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return failed("", "--state: %w", fmt.Errorf("save: %w", err))
	}
	return nil
}

// createBeside creates an empty file in the directory of --state, to become the
// state by a new name. The caller closes and removes it.
func createBeside(file string) (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(file), ".rollcall-state-*")
	if err != nil {
		return nil, failed("the directory has to be there, and this user has to be allowed to write in it", "--state %s: %w", file, err)
	}
	return f, nil
}
