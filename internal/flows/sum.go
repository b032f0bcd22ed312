package flows

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
)

// DefaultTuples is how many connections a Summer holds at once, unless it is given another number.
// Each takes about 300 bytes.
const DefaultTuples = 1_000_000

// Summer makes rows of records. The records of one connection may come in any order, as long as
// they come before their window is taken.
type Summer struct {
	// own are the addresses of interfaces, for logs that do not say which way packets went.
	own    func(networkInterface string) []netip.Addr
	most   int
	tuples map[tuple]*connection
	// remembered says which end began a connection that went on from a window that was taken.
	remembered map[ends]remembered
	counts     Counts
}

// Counts are what a Summer was given, and what it left out.
type Counts struct {
	// Records is how many records came.
	Records int
	// Placeless is how many were left out because neither the log nor the addresses of the
	// interface say which way the packets went.
	Placeless int
	// Twice is how many were left out because they had come before, which deliveries that are
	// repeated bring about.
	Twice int
	// Over is how many were left out because the Summer holds no more connections.
	Over int
}

// NewSummer returns a Summer that holds at most so many connections; DefaultTuples if that is 0.
// Own returns the addresses of an interface, or none if it is not known.
func NewSummer(own func(networkInterface string) []netip.Addr, most int) *Summer {
	if most <= 0 {
		most = DefaultTuples
	}
	return &Summer{own: own, most: most, tuples: map[tuple]*connection{}, remembered: map[ends]remembered{}}
}

// ends names a connection at an interface, whichever end began it: a is the lesser one.
type ends struct {
	account, region, networkInterface string
	a, b                              netip.AddrPort
	protocol                          uint8
}

// tuple is a connection within a window.
type tuple struct {
	ends
	minute int64
}

// remembered is what is known of a connection from earlier windows.
type remembered struct {
	began Beginning // of a
	last  int64
}

// connection is what was seen of one connection within a window.
type connection struct {
	// toward counts the packets from a to b, and back those from b to a.
	toward, back traffic
	// began says which end began it: BeginsSource is a.
	began Beginning
	// fresh tells that its beginning was seen within the window.
	fresh              bool
	direction          cloud.Direction // of packets from a to b
	rule, acl, refused string
	serviceA, serviceB string
	// taken are the records that it is made of.
	taken []mark
}

// mark tells a record from the others of its connection.
type mark struct {
	start, end     int64
	turned         bool
	packets, bytes uint64
}

// traffic is what was seen of the packets that go one way.
type traffic struct {
	accepted, dropped bool
	packets, bytes    uint64
}

// Add takes a record.
func (s *Summer) Add(r *Record) {
	s.counts.Records++
	direction := r.Direction
	if direction == "" {
		direction = s.directionOf(r)
	}
	if direction == "" {
		s.counts.Placeless++
		return
	}
	from, to := netip.AddrPortFrom(r.Source, r.SourcePort), netip.AddrPortFrom(r.Destination, r.DestinationPort)
	key := tuple{ends{r.Account, r.Region, r.Interface, from, to, r.Protocol}, r.Start.Unix() / int64(Window/time.Second)}
	turned := from.Compare(to) > 0
	if turned {
		key.a, key.b = to, from
	}
	c := s.tuples[key]
	if c == nil {
		if len(s.tuples) >= s.most {
			s.counts.Over++
			return
		}
		c = &connection{}
		s.tuples[key] = c
	}
	m := mark{r.Start.UnixNano(), r.End.UnixNano(), turned, r.Packets, r.Bytes}
	if slices.Contains(c.taken, m) {
		s.counts.Twice++
		return
	}
	c.taken = append(c.taken, m)
	c.add(r, direction, turned)
}

// add takes a record, whose source is b if it is turned.
func (c *connection) add(r *Record, direction cloud.Direction, turned bool) {
	way, answers := &c.toward, &c.back
	began := r.Begins
	if turned {
		way, answers = answers, way
		began, direction = began.turned(), opposite(direction)
		c.serviceA, c.serviceB = r.DestinationService, r.SourceService
	} else {
		c.serviceA, c.serviceB = r.SourceService, r.DestinationService
	}
	c.direction = direction
	way.packets, way.bytes = way.packets+r.Packets, way.bytes+r.Bytes
	answers.packets, answers.bytes = answers.packets+r.ReplyPackets, answers.bytes+r.ReplyBytes
	if r.ReplyPackets > 0 {
		answers.accepted = true
	}
	if r.Accepted {
		way.accepted = true
	} else {
		way.dropped = true
	}
	if began != BeginsUnknown {
		c.began = began
	}
	c.fresh = c.fresh || r.Fresh
	if r.Rule != "" {
		c.rule, c.acl = r.Rule, r.ACL
	}
	if r.Refused != "" {
		c.refused = r.Refused
	}
}

func (b Beginning) turned() Beginning {
	switch b {
	case BeginsSource:
		return BeginsDestination
	case BeginsDestination:
		return BeginsSource
	}
	return b
}

func opposite(d cloud.Direction) cloud.Direction {
	if d == cloud.Egress {
		return cloud.Ingress
	}
	return cloud.Egress
}

// directionOf tells the way of packets by whose addresses the interface has.
func (s *Summer) directionOf(r *Record) cloud.Direction {
	own := s.own(r.Interface)
	source, destination := slices.Contains(own, r.Source), slices.Contains(own, r.Destination)
	switch {
	case source == destination:
		return ""
	case source:
		return cloud.Egress
	}
	return cloud.Ingress
}

// Counts returns what the Summer was given so far.
func (s *Summer) Counts() Counts { return s.counts }

// Take returns the rows of all windows that end at a time or before, sorted, and forgets them. The
// zero time is all of them.
func (s *Summer) Take(until time.Time) []Row {
	rows := map[Key]*Row{}
	minutes := map[int64]bool{}
	for key := range s.tuples {
		if end := (key.minute + 1) * int64(Window/time.Second); until.IsZero() || end <= until.Unix() {
			minutes[key.minute] = true
		}
	}
	order := make([]int64, 0, len(minutes))
	for m := range minutes {
		order = append(order, m)
	}
	slices.Sort(order)
	byMinute := map[int64][]tuple{}
	for key := range s.tuples {
		if minutes[key.minute] {
			byMinute[key.minute] = append(byMinute[key.minute], key)
		}
	}
	for _, m := range order {
		for _, key := range byMinute[m] {
			s.sum(rows, key, s.tuples[key])
			delete(s.tuples, key)
		}
	}
	if len(order) > 0 {
		s.forget(order[len(order)-1])
	}
	out := make([]Row, 0, len(rows))
	for _, r := range rows {
		out = append(out, *r)
	}
	Sort(out)
	return out
}

// rememberedFor is for how many windows after its last one a Summer remembers which end began a
// connection. Logs tell of idle connections only when a packet comes.
const rememberedFor = 60

// forget drops what is remembered of connections that were not seen for long.
func (s *Summer) forget(now int64) {
	for key, r := range s.remembered {
		if now-r.last > rememberedFor {
			delete(s.remembered, key)
		}
	}
}

// sum adds a connection to its row.
func (s *Summer) sum(rows map[Key]*Row, key tuple, c *connection) {
	began, guessed := c.began, false
	if began == BeginsUnknown {
		began = s.remembered[key.ends].began
	}
	if began == BeginsUnknown {
		began, guessed = guess(key.ends, c)
	}
	if c.began != BeginsUnknown && len(s.remembered) < s.most {
		s.remembered[key.ends] = remembered{began, key.minute}
	}
	client, server, way, answers, direction := key.a, key.b, c.toward, c.back, c.direction
	clientService, serverService := c.serviceA, c.serviceB
	if began == BeginsDestination {
		client, server, way, answers, direction = server, client, answers, way, opposite(direction)
		clientService, serverService = serverService, clientService
	}
	k := Key{
		Minute:  time.Unix(key.minute*int64(Window/time.Second), 0).UTC(),
		Account: key.account, Region: key.region, Interface: key.networkInterface, Direction: direction,
		Client: client.Addr(), Server: server.Addr(), Protocol: key.protocol, Port: server.Port(),
		// What is answered was let through, whatever became of single packets.
		Accepted: way.accepted || answers.accepted, Guessed: guessed, Midway: !c.fresh,
		Rule: c.rule, ACL: c.acl, Refused: c.refused, ClientService: clientService, ServerService: serverService,
	}
	row := rows[k]
	if row == nil {
		row = &Row{Key: k}
		rows[k] = row
	}
	row.Connections++
	row.Packets, row.Bytes = row.Packets+way.packets, row.Bytes+way.bytes
	row.ReplyPackets, row.ReplyBytes = row.ReplyPackets+answers.packets, row.ReplyBytes+answers.bytes
	row.ReplyDropped = row.ReplyDropped || answers.dropped && way.accepted
}

// guess says which end began a connection of which nothing shows it. What is dropped and not
// answered was sent by the end that began it. Else the end with the lower port was asked, and the
// result is a guess; of equal ports nothing can be told, and the lesser address is taken for the
// one that asked.
func guess(key ends, c *connection) (Beginning, bool) {
	toward, back := c.toward.accepted || c.toward.dropped, c.back.accepted || c.back.dropped
	switch {
	case toward && !back && c.toward.dropped && !c.toward.accepted:
		return BeginsSource, false
	case back && !toward && c.back.dropped && !c.back.accepted:
		return BeginsDestination, false
	case key.a.Port() < key.b.Port():
		return BeginsDestination, true
	case key.a.Port() == key.b.Port() && !toward:
		return BeginsDestination, true
	}
	return BeginsSource, true
}

// String names the row for messages.
func (r *Row) String() string {
	verdict := "accepted"
	if !r.Accepted {
		verdict = "dropped"
	}
	return fmt.Sprintf("%s %s %s -> %s protocol %d port %d, %s at %s", r.Minute.Format(time.RFC3339), r.Direction, r.Client, r.Server, r.Protocol, r.Port, verdict, r.Interface)
}
