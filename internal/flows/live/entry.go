package live

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// Cause is what has decided.
type Cause = analysis.TrafficCause

// Entry is what one enforcer saw, within a window of time, of connections that are alike.
type Entry struct {
	// Start is the beginning of the window.
	Start       time.Time
	First, Last time.Time
	// Enforcer is the key of the one that saw it, Direction In, Out or Through as it saw it.
	Enforcer, Direction string
	// Client began the connections, Server received them, and Asked is what the client asked if the
	// address was translated.
	Client, Server                       netip.Addr
	ClientOwner, ServerOwner, AskedOwner Owner
	Asked                                netip.AddrPort
	Protocol                             uint8
	Port                                 uint16
	// Verdict is Allow, Drop, Reject, or empty if the beginning was not seen.
	Verdict, Differs string
	Cause            analysis.TrafficCause
	// Before is what had let it pass before that; its cause is empty if nothing had.
	Before                                                       analysis.TrafficCause
	Connections, Ended, Packets, Bytes, ReplyPackets, ReplyBytes int64
	Uncounted                                                    bool
}

// entry spells an entry of the window out.
func (w *window) entry(k key, r *row) *Entry {
	e := &Entry{
		Start: w.start, First: time.Unix(0, r.first).UTC(), Last: time.Unix(0, r.last).UTC(), Enforcer: w.reporter.at(k.reporter), Direction: directions[k.direction],
		Client: netip.AddrFrom16(k.client).Unmap(), Server: netip.AddrFrom16(k.server).Unmap(), ClientOwner: w.owners.at(k.clientOwner), ServerOwner: w.owners.at(k.serverOwner),
		Protocol: k.protocol, Port: k.port, Verdict: verdicts[k.verdict], Differs: differing[k.differs], Cause: w.causes.at(k.cause), Before: w.causes.at(k.before),
		Connections: r.connections, Ended: r.ended, Packets: r.packets, Bytes: r.bytes, ReplyPackets: r.replyPackets, ReplyBytes: r.replyBytes, Uncounted: r.uncounted,
	}
	if k.asked != ([16]byte{}) {
		e.Asked, e.AskedOwner = netip.AddrPortFrom(netip.AddrFrom16(k.asked).Unmap(), k.askedPort), w.owners.at(k.named)
	}
	return e
}

func (t *table[T]) at(n uint32) T {
	if int(n) < len(t.values) {
		return t.values[n]
	}
	var none T
	return none
}

// Minutes returns what was seen from since on and before until, two whole minutes, summed up by the
// minute. It stays in memory.
func (s *Store) Minutes(since, until time.Time) []*Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	type alike struct {
		start               time.Time
		enforcer, direction string
		client, server      netip.Addr
		from, to, named     Owner
		asked               netip.AddrPort
		protocol            uint8
		port                uint16
		verdict, differs    string
		cause, before       analysis.TrafficCause
	}
	sums := map[alike]*Entry{}
	var out []*Entry
	for _, w := range s.windows {
		if w.start.Before(since) || !w.start.Before(until) {
			continue
		}
		for k, r := range w.rows {
			e := w.entry(k, r)
			e.Start = w.start.Truncate(time.Minute)
			a := alike{e.Start, e.Enforcer, e.Direction, e.Client, e.Server, e.ClientOwner, e.ServerOwner, e.AskedOwner,
				e.Asked, e.Protocol, e.Port, e.Verdict, e.Differs, e.Cause, e.Before}
			if known := sums[a]; known != nil {
				known.merge(e)
				continue
			}
			sums[a] = e
			out = append(out, e)
		}
	}
	slices.SortFunc(out, compareEntries)
	return out
}

// merge adds what was seen later, or earlier, of the same.
func (e *Entry) merge(x *Entry) {
	if x.First.Before(e.First) {
		e.First = x.First
	}
	if x.Last.After(e.Last) {
		e.Last = x.Last
	}
	e.Connections, e.Ended = e.Connections+x.Connections, e.Ended+x.Ended
	e.Packets, e.Bytes = e.Packets+x.Packets, e.Bytes+x.Bytes
	e.ReplyPackets, e.ReplyBytes = e.ReplyPackets+x.ReplyPackets, e.ReplyBytes+x.ReplyBytes
	e.Uncounted = e.Uncounted || x.Uncounted
}

// compareEntries orders entries such that equal values follow one another, which packs them well.
func compareEntries(a, b *Entry) int {
	return cmp.Or(
		cmp.Compare(a.Enforcer, b.Enforcer), a.Server.Compare(b.Server), cmp.Compare(a.Port, b.Port), a.Client.Compare(b.Client), cmp.Compare(a.Verdict, b.Verdict),
		a.Start.Compare(b.Start),
	)
}
