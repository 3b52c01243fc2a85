// Package web holds the pages that are embedded in the binary.
package web

import (
	"embed"
	"io/fs"
)

//go:embed static
var embedded embed.FS

// Static holds the files of the demo page, rooted at their own folder: "index.html" is the page
// served at "/", and it refers to its neighbours ("app.css", "app.js", "icon.svg") by relative
// names, so they belong at "/app.css" and so on. The page runs under the Content-Security-Policy
// "default-src 'self'": no inline script or style, no other host. It talks to "/v1" of the origin
// it came from. Static is safe for concurrent use.
var Static fs.FS = rooted()

func rooted() fs.FS {
	files, err := fs.Sub(embedded, "static")
	if err != nil {
		panic("web: static is embedded under another name: " + err.Error())
	}
	return files
}
