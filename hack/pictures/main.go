// Command pictures draws docs/pictures/*.txt as SVG files beside them: boxes on a grid, with arrows
// between them.
//
// Usage: pictures FOLDER
//
// A line of a text is one of
//
//	title TEXT
//	box ID COLUMN,ROW WIDTH TEXT|SECOND LINE|...
//	outside ID COLUMN,ROW WIDTH TEXT        not ours, with a dashed border
//	note COLUMN,ROW WIDTH TEXT              text without a border
//	arrow FROM -> TO TEXT                   straight within a row or column, else with one corner
//
// COLUMN and ROW begin with 0, WIDTH counts columns. It keeps no state and may run at any time; the
// same text gives the same bytes.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
)

// Sizes in pixels.
const (
	column, row   = 168, 104
	width, height = 148, 64 // of a box of one column
	margin        = 20
	head          = 44
	line          = 16
)

type box struct {
	id, kind        string
	col, row, width int
	text            []string
}

type arrow struct{ from, to, text string }

type drawing struct {
	title  string
	boxes  []box
	arrows []arrow
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: pictures FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	texts, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(texts) == 0 {
		return fmt.Errorf("%d texts in %s: %w", len(texts), folder, err)
	}
	for _, name := range texts {
		raw, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("reading a text: %w", err)
		}
		p, err := parse(string(raw))
		if err != nil {
			return fmt.Errorf("%s:%w", name, err)
		}
		out, err := p.draw()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(strings.TrimSuffix(name, ".txt")+".svg", out, 0o644); err != nil {
			return fmt.Errorf("writing a picture: %w", err)
		}
	}
	return nil
}

func parse(text string) (drawing, error) {
	var p drawing
	n := 0
	for l := range strings.Lines(text) {
		n++
		l = strings.TrimSpace(l)
		word, rest, _ := strings.Cut(l, " ")
		var err error
		switch word {
		case "", "#":
		case "title":
			p.title = rest
		case "box", "outside", "note":
			err = p.box(word, rest)
		case "arrow":
			from, to, ok := strings.Cut(rest, " -> ")
			to, label, _ := strings.Cut(to, " ")
			if !ok {
				err = errors.New("expected arrow FROM -> TO TEXT")
			}
			p.arrows = append(p.arrows, arrow{from, to, label})
		default:
			err = fmt.Errorf("expected title, box, outside, note or arrow, not %q", word)
		}
		if err != nil {
			return p, fmt.Errorf("%d: %w", n, err)
		}
	}
	return p, nil
}

func (p *drawing) box(kind, rest string) error {
	b := box{kind: kind}
	if kind != "note" {
		b.id, rest, _ = strings.Cut(rest, " ")
	}
	at, rest, _ := strings.Cut(rest, " ")
	span, text, _ := strings.Cut(rest, " ")
	if _, err := fmt.Sscanf(at+" "+span, "%d,%d %d", &b.col, &b.row, &b.width); err != nil || b.width < 1 || text == "" {
		return errors.New("expected COLUMN,ROW WIDTH TEXT")
	}
	b.text = strings.Split(text, "|")
	p.boxes = append(p.boxes, b)
	return nil
}

// place is the rectangle of a box.
func (b box) place() (x, y, w, h int) {
	return margin + b.col*column, head + b.row*row, width + (b.width-1)*column, height
}

func (p drawing) draw() ([]byte, error) {
	right, bottom := 0, 0
	at := map[string]box{}
	for _, b := range p.boxes {
		x, y, w, h := b.place()
		right, bottom = max(right, x+w+margin), max(bottom, y+h+margin)
		if b.id != "" {
			at[b.id] = b
		}
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">
<title>%s</title>
<style>
rect{fill:#fff;stroke:#335;stroke-width:1.5}
.outside rect{stroke-dasharray:5 4;fill:#f4f4f4}
path{fill:none;stroke:#335;stroke-width:1.5;marker-end:url(#head)}
text{fill:#112}
.label{font-size:11px;fill:#446}
</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L10 5L0 10z" style="fill:#335;stroke:none;marker-end:none"/></marker></defs>
<rect x="0" y="0" width="%d" height="%d" style="stroke:none"/>
<text x="%d" y="26" font-size="16" font-weight="bold">%s</text>
`, right, bottom, right, bottom, html.EscapeString(p.title), right, bottom, margin, html.EscapeString(p.title))
	for _, a := range p.arrows {
		from, known := at[a.from]
		to, also := at[a.to]
		if !known || !also {
			return nil, fmt.Errorf("an arrow from %q to %q, and one of them is no box", a.from, a.to)
		}
		a.draw(&out, from, to)
	}
	for _, b := range p.boxes {
		b.draw(&out)
	}
	out.WriteString("</svg>\n")
	return out.Bytes(), nil
}

func (b box) draw(out *bytes.Buffer) {
	x, y, w, h := b.place()
	fmt.Fprintf(out, `<g class="%s">`, b.kind)
	if b.kind != "note" {
		fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" rx="6"/>`, x, y, w, h)
	}
	top := y + (h-line*len(b.text))/2 + 12
	for i, t := range b.text {
		weight := ""
		if i == 0 && len(b.text) > 1 {
			weight = ` font-weight="bold"`
		}
		fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="middle"%s>%s</text>`, x+w/2, top+i*line, weight, html.EscapeString(t))
	}
	out.WriteString("</g>\n")
}

// draw leads an arrow from the side of a box that faces the other.
func (a arrow) draw(out *bytes.Buffer, from, to box) {
	x, y, w, h := from.place()
	x2, y2, w2, h2 := to.place()
	label := func(x, y int) {
		if a.text != "" {
			fmt.Fprintf(out, `<text class="label" x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", x, y, html.EscapeString(a.text))
		}
	}
	line := func(points ...int) {
		fmt.Fprintf(out, `<path d="M%d %d`, points[0], points[1])
		for i := 2; i < len(points); i += 2 {
			fmt.Fprintf(out, `L%d %d`, points[i], points[i+1])
		}
		out.WriteString("\"/>\n")
	}
	switch {
	case from.row == to.row && from.col < to.col:
		line(x+w, y+h/2, x2, y2+h2/2)
		label((x+w+x2)/2, y-4)
	case from.row == to.row:
		line(x, y+h/2, x2+w2, y2+h2/2)
		label((x+x2+w2)/2, y-4)
	default:
		// Down or up, in the middle of what both cover, or else by a corner.
		left, right := max(x, x2), min(x+w, x2+w2)
		start, end := y+h, y2
		if from.row > to.row {
			start, end = y, y2+h2
		}
		if left < right {
			line((left+right)/2, start, (left+right)/2, end)
			label((left+right)/2+6+3*len(a.text), (start+end)/2+4)
			return
		}
		middle := (start + end) / 2
		line(x+w/2, start, x+w/2, middle, x2+w2/2, middle, x2+w2/2, end)
		label((x+w/2+x2+w2/2)/2, middle-5)
	}
}
