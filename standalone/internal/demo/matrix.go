package demo

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws/packet"
)

// service is a kind of traffic that the matrix asks about.
type service struct {
	letter         byte
	name           string
	protocol, port int
	icmpType       int
}

const (
	protocolICMP = 1
	protocolTCP  = 6
	echoRequest  = 8
)

// services are the columns within a cell.
func services() []service {
	return []service{
		{letter: 's', name: "ssh tcp/22", protocol: protocolTCP, port: 22},
		{letter: 'h', name: "https tcp/443", protocol: protocolTCP, port: 443},
		{letter: 't', name: "telemetry tcp/9910", protocol: protocolTCP, port: 9910},
		{letter: 'p', name: "ping", protocol: protocolICMP, icmpType: echoRequest},
	}
}

// place is where traffic begins or ends: a VM with all its interfaces, or an address outside.
type place struct {
	name string
	nics []string
	addr netip.Addr
}

func (p place) ends() []packet.End {
	if len(p.nics) == 0 {
		return []packet.End{{Addr: p.addr}}
	}
	ends := make([]packet.End, 0, len(p.nics))
	for _, nic := range p.nics {
		ends = append(ends, packet.End{NIC: nic})
	}
	return ends
}

// The signs in a cell besides the letters of the services.
const (
	blocked   = '.'
	partly    = '?' // some pairs of interfaces may, others may not
	noTraffic = '-' // not a question: a VM and itself, or two outside addresses
)

// matrix says which endpoint can reach which: cells[i][j] has one sign per service for the traffic
// from from[i] to to[j].
type matrix struct {
	from, to []place
	cells    [][]string
	// services are the signs of a cell.
	services []service
	// flows is how many verdicts went into it.
	flows int
}

// reach asks for every pair of places, every pair of their interfaces and every service.
func reach(from, to []place, allowed func(packet.Flow) (packet.Verdict, error)) (matrix, error) {
	m := matrix{from: from, to: to, services: services()}
	for _, a := range from {
		row := make([]string, 0, len(to))
		for _, b := range to {
			var cell strings.Builder
			for _, s := range services() {
				sign, flows, err := ask(a, b, s, allowed)
				if err != nil {
					return matrix{}, err
				}
				cell.WriteByte(sign)
				m.flows += flows
			}
			row = append(row, cell.String())
		}
		m.cells = append(m.cells, row)
	}
	return m, nil
}

// ask returns the sign for one service from a to b, and how many verdicts it took.
func ask(a, b place, s service, allowed func(packet.Flow) (packet.Verdict, error)) (byte, int, error) {
	if a.name == b.name || len(a.nics) == 0 && len(b.nics) == 0 {
		return noTraffic, 0, nil
	}
	yes, flows := 0, 0
	for _, src := range a.ends() {
		for _, dst := range b.ends() {
			v, err := allowed(packet.Flow{Src: src, Dst: dst, Protocol: s.protocol, Port: s.port, ICMPType: s.icmpType})
			if err != nil {
				return 0, 0, fmt.Errorf("ask whether %s reaches %s: %w", a.name, b.name, err)
			}
			flows++
			if v.Allowed {
				yes++
			}
		}
	}
	switch yes {
	case 0:
		return blocked, flows, nil
	case flows:
		return s.letter, flows, nil
	}
	return partly, flows, nil
}

// difference is one cell that is not as it was, or as it should be.
type difference struct {
	from, to  string
	is, other string
}

// in says it of cells with signs for these services.
func (d difference) in(all []service) string {
	return fmt.Sprintf("from %s to %s: %s, expected %s", d.from, d.to, inWords(d.is, all), inWords(d.other, all))
}

// differences compares with the cells of another matrix of the same places.
func (m matrix) differences(other [][]string) []difference {
	var out []difference
	for i, a := range m.from {
		for j, b := range m.to {
			o := ""
			if i < len(other) && j < len(other[i]) {
				o = other[i][j]
			}
			if m.cells[i][j] != o {
				out = append(out, difference{a.name, b.name, m.cells[i][j], o})
			}
		}
	}
	return out
}

// inWords says what the signs of a cell mean.
func inWords(cell string, all []service) string {
	var open []string
	for i, s := range all {
		if i >= len(cell) {
			return "unknown"
		}
		switch cell[i] {
		case s.letter:
			open = append(open, s.name)
		case partly:
			open = append(open, s.name+" between some of the interfaces")
		}
	}
	if len(open) == 0 {
		return "nothing"
	}
	return strings.Join(open, ", ")
}

// Text prints the matrix for people in lines of so many columns, if it can. What differs from the
// former cells stands in brackets, or where there is no room for them before a star; former may be
// nil.
func (m matrix) Text(former [][]string, columns int) string {
	wide := m.table(former, inBrackets())
	for line := range strings.Lines(wide) {
		if len(line) > columns+1 && !strings.HasPrefix(line, legendMark) {
			return m.table(former, starred())
		}
	}
	return wide
}

// form is how the signs of a cell are written.
type form struct {
	// lead is what names and lone signs begin with, to stand above the signs.
	lead, same, changed, legend string
}

func inBrackets() form { return form{" ", " %c ", "[%c]", "[ ] has changed"} }

func starred() form { return form{"", "%c ", "%c*", "* has changed"} }

func (m matrix) table(former [][]string, f form) string {
	var b strings.Builder
	corner := "from \\ to"
	left := len(corner)
	for _, p := range m.from {
		left = max(left, len(p.name))
	}
	line := func(first string, rest []string) {
		text := fmt.Sprintf("  %-*s", left, first)
		for j, r := range rest {
			text += fmt.Sprintf("  %-*s", max(len(fmt.Sprintf(f.same, ' '))*len(m.services), len(m.to[j].name)), r)
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	names := make([]string, 0, len(m.to))
	for _, p := range m.to {
		names = append(names, f.lead+p.name)
	}
	line(corner, names)
	for i, p := range m.from {
		row := make([]string, 0, len(m.to))
		for j, cell := range m.cells[i] {
			before := cell
			if former != nil {
				before = former[i][j]
			}
			row = append(row, f.marked(cell, before))
		}
		line(p.name, row)
	}
	changes := ""
	if former != nil {
		changes = f.legend
	}
	b.WriteString(legend(m.services, changes))
	return b.String()
}

// marked spreads the signs of a cell, and marks those that differ.
func (f form) marked(cell, before string) string {
	if strings.Trim(cell, string(noTraffic)) == "" {
		return f.lead + string(noTraffic)
	}
	var b strings.Builder
	for i := range len(cell) {
		if cell[i] == before[i] {
			fmt.Fprintf(&b, f.same, cell[i])
		} else {
			fmt.Fprintf(&b, f.changed, cell[i])
		}
	}
	return b.String()
}

// legendMark begins the legend, a line that may be broken.
const legendMark = "  ("

func legend(all []service, changes string) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, string(s.letter)+" "+s.name)
	}
	text := legendMark + strings.Join(parts, ", ") + ", " + string(blocked) + " blocked"
	if changes != "" {
		text += "; " + changes
	}
	return text + ")\n"
}
