package aws

import (
	"net/netip"
	"time"
)

// PrefixListEntry is one block of a prefix list.
type PrefixListEntry struct {
	CIDR        netip.Prefix `json:"cidr"`
	Description string       `json:"description,omitempty"`
}

// AWSOwned is the owner of prefix lists that the cloud itself manages.
const AWSOwned = "AWS"

// PrefixList is a managed prefix list. Versions[v-1] holds the entries of version v; lists of the
// cloud have one version.
type PrefixList struct {
	ID         string              `json:"id"`
	Name       string              `json:"name"`
	OwnerID    string              `json:"ownerId"` // account, or AWSOwned
	Family     string              `json:"family"`  // IPv4 or IPv6
	MaxEntries int                 `json:"maxEntries"`
	State      string              `json:"state"`
	Versions   [][]PrefixListEntry `json:"versions"`
	Tags       Tags                `json:"tags,omitempty"`
	Visible    time.Time           `json:"visible,omitzero"`
}

// Version is the current version number, from 1.
func (p *PrefixList) Version() int { return len(p.Versions) }

// Entries returns the current entries.
func (p *PrefixList) Entries() []PrefixListEntry {
	if len(p.Versions) == 0 {
		return nil
	}
	return p.Versions[len(p.Versions)-1]
}

const (
	CreateInProgress = "create-in-progress"
	CreateComplete   = "create-complete"
	ModifyInProgress = "modify-in-progress"
	ModifyComplete   = "modify-complete"
	DeleteInProgress = "delete-in-progress"
	DeleteComplete   = "delete-complete"
)
