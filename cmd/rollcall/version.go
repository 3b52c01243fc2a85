package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for a release.
var version string

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints the version of the program and what it was made with.
func (v *versionCommand) Run(con *console) error {
	name, revision := version, ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if name == "" {
			name = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	if name == "" {
		name = "(devel)"
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if v.JSON {
		return con.print(map[string]any{"version": name, "revision": revision, "go": runtime.Version(), "platform": platform})
	}
	_, err := fmt.Fprintf(con.out, "rollcall %s %s %s\n", name, runtime.Version(), platform)
	return err
}
