package doctor

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// spareFiles is what a node needs besides its connections.
const spareFiles = 64

// examineAdmin looks at the admin listener of a node.
func examineAdmin(ctx context.Context, address string, found func(Finding)) {
	base, err := parseURL(address)
	if err != nil {
		found(wrong("node", "--admin http://127.0.0.1:9090 is the default of a server", "%v", err))
		return
	}
	root := strings.TrimRight(base.String(), "/")
	f, there := checkReady(ctx, root)
	found(f)
	if !there {
		return
	}
	raw, _, err := get(ctx, root+"/metrics")
	if err != nil {
		found(wrong("metrics", "", "%v", err))
		return
	}
	m := readMetrics(raw)
	found(checkFiles(m))
	found(checkLoad(m))
}

func get(ctx context.Context, address string) (body string, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", 0, err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", 0, withoutURL(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	return string(raw), res.StatusCode, err
}

func checkReady(ctx context.Context, root string) (f Finding, there bool) {
	const name = "node"
	body, status, err := get(ctx, root+"/readyz")
	said := strings.TrimSpace(body)
	switch {
	case err != nil:
		return wrong(name, unreachable(err), "the admin listener does not answer: %v", err), false
	case status == http.StatusOK:
		return ok(name, "ready"), true
	case status == http.StatusServiceUnavailable:
		return wrong(name, "it takes nobody new: if it is not on its way out, what does its log say?", "not ready: %s", said), true
	}
	return wrong(name, "--admin is the address of `rollcall: admin on ...`", "%d from /readyz: not an admin listener", status), false
}

// readMetrics reads the samples without labels, or sums up those with.
func readMetrics(text string) map[string]float64 {
	m := make(map[string]float64)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		name, _, _ := strings.Cut(line[:i], "{")
		if n, err := strconv.ParseFloat(line[i+1:], 64); err == nil {
			m[name] += n
		}
	}
	return m
}

func checkFiles(m map[string]float64) Finding {
	const name = "open files"
	files, known := m["process_max_fds"]
	most := m["rollcall_max_connections"]
	switch {
	case !known || most == 0:
		return advice(name, "", "the node does not tell its limit")
	case files < most+spareFiles:
		return wrong(name, fmt.Sprintf("allow twice as many: LimitNOFILE=%.0f in the unit of systemd, or ulimit -n; or lower --max-connections", 2*most+spareFiles), "%.0f files may be open, and %.0f connections", files, most)
	case files < 2*most:
		return advice(name, fmt.Sprintf("allow twice as many: LimitNOFILE=%.0f. Whoever answers beats over HTTP/1.1 has a second connection meanwhile", 2*most+spareFiles), "%.0f files may be open, and %.0f connections", files, most)
	}
	return ok(name, "%.0f may be open, for %.0f connections", files, most)
}

func checkLoad(m map[string]float64) Finding {
	const name = "connections"
	open, most := m["rollcall_connections"], m["rollcall_max_connections"]
	if most > 0 && open > 0.8*most {
		return advice(name, "raise --max-connections, or add a node", "%.0f of %.0f", open, most)
	}
	if most > 0 {
		return ok(name, "%.0f of %.0f", open, most)
	}
	return ok(name, "%.0f", open)
}
