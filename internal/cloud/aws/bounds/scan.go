package bounds

import (
	"bytes"
	"slices"
)

// This file looks at answers before they are decoded, so that what the decoder makes of them is no
// larger than what was reckoned with. It does not understand them: where it cannot tell, it reckons
// with more.

const (
	// openCost is what an element takes in the decoder's memory until it is closed.
	openCost = 128
	// longestText bounds a text, and what stands in one tag. The longest that EC2 and STS give are
	// of a few kilobytes.
	longestText = 64 << 10
	// valueCost is what a value of JSON takes in memory beyond its bytes.
	valueCost = 64
)

// xmlScan reckons with the items of lists, which take more memory than "<item/>", and with elements
// that are not closed.
type xmlScan struct {
	// cost is that of an item, by the number of items that it is in; the last is that of all deeper
	// ones.
	cost []int64
	// run counts the bytes since the last "<".
	run int
	// at is where in a tag we are: see below.
	at      tagPlace
	closing bool
	// items are the open ones, as far as is certain.
	items int
	// suspicious is set by a comment, a CDATA section or the like, in which nothing is what it
	// looks like.
	suspicious bool
}

// tagPlace counts the letters of "item" that a name has begun with, or is one of these.
type tagPlace int

const (
	inName          tagPlace = 5 + iota // of another element
	outside                             // of names
	inInstruction                       // between "<?" and "?>"
	endsInstruction                     // the same, behind a "?"
)

const itemName = "item"

func newXMLScan(cost []int64) *xmlScan { return &xmlScan{cost: cost, at: outside} }

// feed implements scan.
func (s *xmlScan) feed(p []byte) (cost int64, ok bool) {
	for len(p) > 0 {
		if s.at == outside {
			next := bytes.IndexByte(p, '<')
			if next < 0 {
				s.run += len(p)
				return cost, s.run <= longestText
			}
			if s.run+next > longestText {
				return cost, false
			}
			p = p[next+1:]
			cost += s.open()
			continue
		}
		c := p[0]
		p = p[1:]
		cost += s.letter(c)
		if s.run++; s.run > longestText {
			return cost, false
		}
	}
	return cost, true
}

// open begins a tag.
func (s *xmlScan) open() int64 {
	s.run, s.at, s.closing = 0, 0, false
	return openCost
}

// letter takes the next byte of a name. The decoder looks at what stands behind the colon of a
// name, in capital letters or not.
func (s *xmlScan) letter(c byte) int64 {
	switch {
	case s.at >= inInstruction:
		switch {
		case c == '?':
			s.at = endsInstruction
		case c == '>' && s.at == endsInstruction:
			s.at = outside
		default:
			s.at = inInstruction
		}
	case c == '<':
		return s.open()
	case c == '/' && s.run == 0:
		s.closing = true
		if !s.suspicious {
			return -2 * openCost // this opens nothing, and another element is closed
		}
	case c == '?' && s.run == 0:
		s.at = inInstruction
	case c == '!' && s.run == 0:
		s.suspicious, s.at = true, outside
	case c == ':':
		s.at = 0
	case c == '/' || c == '>' || c == ' ' || c == '\t' || c == '\n' || c == '\r':
		isItem := int(s.at) == len(itemName)
		s.at = outside
		if isItem {
			return s.isItem(c == '>')
		}
	case int(s.at) < len(itemName) && c|0x20 == itemName[s.at]:
		s.at++
	default:
		s.at = inName
	}
	return 0
}

// isItem takes the end of the name of an item; open tells whether the item surely has a content.
func (s *xmlScan) isItem(open bool) int64 {
	if s.closing {
		s.items = max(0, s.items-1)
		return 0
	}
	if s.suspicious {
		return slices.Max(s.cost)
	}
	cost := s.cost[min(s.items, len(s.cost)-1)]
	if open {
		s.items++
	}
	return cost
}

// elementScan reckons with every element as if it were an item of the largest type that there is in
// the answers of services, a database.
type elementScan struct {
	// opened is set behind a "<".
	opened bool
}

// elementCost is what such an item takes in memory, with a list that is copied while it grows.
const elementCost = 2560

// feed implements scan.
func (s *elementScan) feed(p []byte) (cost int64, ok bool) {
	for _, c := range p {
		if s.opened && c != '/' {
			cost += elementCost
		}
		s.opened = c == '<'
	}
	return cost, true
}

// jsonScan reckons with every value, which may take more memory than the two bytes that it is
// written in.
type jsonScan struct{}

// feed implements scan.
func (jsonScan) feed(p []byte) (cost int64, ok bool) {
	for _, c := range p {
		if c == '{' || c == '[' || c == ',' {
			cost += valueCost
		}
	}
	return cost, true
}
