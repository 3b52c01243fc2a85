// Package proxies runs the recipes of docs/guides/proxies.md with the real
// programs, and looks through them at a real server. Its tests have the build tag
// faults.
package proxies
