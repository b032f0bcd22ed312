package fqdn

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel"
)

const (
	// streamsMost bounds the TCP streams that are followed, streamsEach the streams of one host or
	// Pod. Beyond that, its oldest stream is forgotten.
	streamsMost, streamsEach = 512, 32
	// bytesMost bounds what is kept of all streams together, until a message is whole.
	bytesMost = 4 << 20
	// segmentsMost bounds the segments of one stream that came before others that they follow.
	segmentsMost = 64
	// largestMessage is a message of DNS with the two bytes before it that say how long it is.
	largestMessage = 1<<16 + 1
)

// streams put the answers of resolvers together that come by TCP. It is not safe for concurrent
// use.
type streams struct {
	known map[streamKey]*stream
	// each counts the streams by client, bytes what is kept of all.
	each  map[netip.Addr]int
	bytes int
}

type streamKey struct{ from, to netip.AddrPort }

// stream is what has come of one direction of a connection and is no whole message yet.
type stream struct {
	// next is the number of the byte that follows what is in bytes.
	next  uint32
	bytes []byte
	// early are segments that begin behind next, by their numbers.
	early map[uint32][]byte
	size  int
	heard time.Time
}

// messages takes in a packet and returns the messages that are whole with it. What it does not
// follow from the beginning, as after a restart of the agent, it takes for the beginning of a
// message.
func (s *streams) messages(p kernel.Queued, now time.Time) [][]byte {
	if s.known == nil {
		s.known, s.each = map[streamKey]*stream{}, map[netip.Addr]int{}
	}
	key := streamKey{p.Source, p.Destination}
	x := s.known[key]
	if p.Begins {
		s.forget(key)
		if !p.Ends {
			s.follow(key, p.Sequence+1, now)
		}
		return nil
	}
	if x == nil {
		if len(p.Payload) == 0 || p.Ends {
			out, _ := cutMessages(p.Payload)
			return out
		}
		x = s.follow(key, p.Sequence, now)
	}
	x.heard = now
	s.bytes -= x.size
	out := x.take(p.Sequence, p.Payload)
	s.bytes += x.size
	if p.Ends || s.bytes > bytesMost {
		s.forget(key)
	}
	return out
}

// follow begins to follow a stream, and forgets others if these are too many.
func (s *streams) follow(key streamKey, next uint32, now time.Time) *stream {
	who := key.to.Addr()
	if s.each[who] >= streamsEach {
		s.forgetOldest(func(k streamKey) bool { return k.to.Addr() == who })
	} else if len(s.known) >= streamsMost {
		s.forgetOldest(func(streamKey) bool { return true })
	}
	x := &stream{next: next, heard: now}
	s.known[key] = x
	s.each[who]++
	return x
}

func (s *streams) forgetOldest(among func(streamKey) bool) {
	var oldest streamKey
	var at *stream
	for k, x := range s.known {
		if among(k) && (at == nil || x.heard.Before(at.heard)) {
			oldest, at = k, x
		}
	}
	s.forget(oldest)
}

func (s *streams) forget(key streamKey) {
	x := s.known[key]
	if x == nil {
		return
	}
	s.bytes -= x.size
	delete(s.known, key)
	if s.each[key.to.Addr()]--; s.each[key.to.Addr()] == 0 {
		delete(s.each, key.to.Addr())
	}
}

// take adds a segment and returns the messages that are whole with it.
func (x *stream) take(sequence uint32, segment []byte) [][]byte {
	if ahead := int32(sequence - x.next); ahead > 0 {
		if len(segment) > 0 && ahead < largestMessage && len(x.early) < segmentsMost {
			if x.early == nil {
				x.early = map[uint32][]byte{}
			}
			x.size += len(segment) - len(x.early[sequence])
			x.early[sequence] = segment
		}
		return nil
	}
	x.join(sequence, segment)
	for joined := true; joined; {
		joined = false
		for at, early := range x.early {
			if int32(at-x.next) <= 0 {
				delete(x.early, at)
				x.size -= len(early)
				x.join(at, early)
				joined = true
			}
		}
	}
	out, rest := cutMessages(x.bytes)
	x.size -= len(x.bytes) - len(rest)
	x.bytes = rest
	return out
}

// join appends what of a segment, that does not begin behind what is there, is new.
func (x *stream) join(sequence uint32, segment []byte) {
	known := int(x.next - sequence)
	if known < 0 || known >= len(segment) {
		return
	}
	x.bytes = append(x.bytes, segment[known:]...)
	x.size += len(segment) - known
	x.next += uint32(len(segment) - known)
}

// cutMessages cuts whole messages from the beginning, and returns what is left.
func cutMessages(b []byte) (out [][]byte, rest []byte) {
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		if len(b) < 2+n {
			break
		}
		out, b = append(out, b[2:2+n]), b[2+n:]
	}
	return out, b
}
