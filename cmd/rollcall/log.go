package main

import (
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
)

// newLogger makes the logger of a server. level and format are words of the
// flags.
func newLogger(w io.Writer, level, format string) *slog.Logger {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level)) // one of four words
	switch {
	case format == "json":
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: least}))
	case format == "auto" && terminal(w):
		return slog.New(tint.NewHandler(w, &tint.Options{Level: least, TimeFormat: time.TimeOnly}))
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: least}))
}

// discard is a logger for commands that say what they have to say themselves.
func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// terminal reports whether w is one that wants colors.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// warn tells what works and may not be meant.
func warn(c *checked, log *slog.Logger) {
	if c.Guests && !c.dev {
		log.Warn("guests are let in: everybody may be whoever they say they are")
	}
	for _, doubt := range c.doubts {
		log.Warn("setting is doubtful", "doubt", doubt)
	}
	for _, key := range c.weakKey {
		log.Warn("api key is short and may be guessed", "name", key.Name)
	}
	// The runtime has raised the soft limit to the hard one.
	if files := openFiles(); !c.dev && files > 0 && files < uint64(c.MaxConnections)+sparedFiles {
		log.Warn("fewer files may be open than connections", "files", files, "connections", c.MaxConnections)
	}
}

// sparedFiles is the files that a node needs besides its connections.
const sparedFiles = 64
