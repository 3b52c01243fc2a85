// Package markdown writes the results of a bench.
package markdown

import (
	"fmt"
	"strings"
)

// Table writes rows as a table of markdown whose columns stand in line.
func Table(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for n, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(b, "| %s%s ", cell, strings.Repeat(" ", widths[i]-len([]rune(cell))))
		}
		b.WriteString("|\n")
		if n == 0 {
			for i, w := range widths {
				align := ":"
				if i == 0 {
					align = "-"
				}
				fmt.Fprintf(b, "|%s%s", strings.Repeat("-", w+1), align)
			}
			b.WriteString("|\n")
		}
	}
}
