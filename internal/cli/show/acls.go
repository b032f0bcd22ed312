package show

import (
	"fmt"
	"strings"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// aclText says which network ACL stops a packet.
func aclText(s *analysis.ACLEntry) string {
	entry, side, what, kind := entryText(s), "into", "it", "network ACL"
	if s.Egress {
		side = "out of"
	}
	if s.Answer {
		what = "the answer to it"
	}
	if s.Name != "" {
		kind = "the subnet's group"
	}
	return fmt.Sprintf("%s of %s %s does not let %s %s subnet %s, whatever policies and security groups say", entry, kind, shortName(s.ACL), what, side, shortName(s.Subnet))
}

func entryText(s *analysis.ACLEntry) string {
	switch {
	case s.Name != "":
		return "rule " + s.Name
	case s.Entry == 0:
		return "the end"
	}
	return fmt.Sprintf("entry %d", s.Entry)
}

// doubtText says which filter of a subnet may stop a packet.
func doubtText(s *analysis.ACLEntry) string {
	return fmt.Sprintf("what %s of the subnet's group %s is about is not known here: it may stop it at subnet %s", entryText(s), shortName(s.ACL), shortName(s.Subnet))
}

// hopText says which rule of a subnet's filter lets a packet through.
func hopText(s *analysis.ACLEntry) string {
	side := "into"
	if s.Egress {
		side = "out of"
	}
	return fmt.Sprintf("subnet %s: %s of the subnet's group %s lets it %s", shortName(s.Subnet), entryText(s), shortName(s.ACL), side)
}

// shortName is the last part of a long id.
func shortName(id string) string { return id[strings.LastIndexByte(id, '/')+1:] }
