//go:build faults && linux && amd64

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"rollcall/test/harness"
)

func contains(data []byte, text string) bool { return bytes.Contains(data, []byte(text)) }

// lacks tells which of users a snapshot does not list; "" if it lists all.
func lacks(e harness.Event, users []string) string {
	var s struct{ Members []harness.Member }
	json.Unmarshal(e.Data, &s)
	var missing []string
	for _, u := range users {
		if !slices.ContainsFunc(s.Members, func(m harness.Member) bool { return m.User == u }) {
			missing = append(missing, u)
		}
	}
	if missing == nil {
		return ""
	}
	return fmt.Sprintf("%q: %s", missing, e.Data)
}
