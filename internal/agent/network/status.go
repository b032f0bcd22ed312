package network

import (
	"net/netip"
	"slices"
	"strings"
)

// Status is how the network of a Node stands.
type Status struct {
	Mode Mode `json:"mode"`
	// MTU is that of Pods; 0 while it is not known.
	MTU int `json:"mtu,omitempty"`
	// Ranges holds the ranges of Pods of this Node, and how much of them is in use.
	Ranges []Usage `json:"ranges,omitempty"`
	// Tunnels and Direct count the Nodes that are reached by VXLAN, and by routes of the subnet.
	Tunnels int `json:"tunnels"`
	Direct  int `json:"direct"`
	// Port is that of VXLAN; 0 without.
	Port uint16 `json:"port,omitempty"`
	// Encrypted is how packets between Nodes are encrypted; nil where they are not.
	Encrypted *Encrypted `json:"encrypted,omitempty"`
	// Links are those between Nodes, and Local the address by which others reach this one.
	Links []Hop      `json:"links,omitempty"`
	Local netip.Addr `json:"local,omitzero"`
	// Services are those that the agent leads to; nil where kube-proxy does.
	Services *Services `json:"services,omitempty"`
	// SNATExcept are others than Pods and Nodes to which Pods keep their addresses.
	SNATExcept []netip.Prefix `json:"snatExcept,omitempty"`
	// Problems are what is wrong, each in a sentence.
	Problems []string `json:"problems,omitempty"`
	// Written counts the changes of the kernel since the agent started.
	Written int `json:"written"`
	// Error is why the kernel is not as it is to be.
	Error string `json:"error,omitempty"`
}

// Encrypted is how packets between Nodes are encrypted.
type Encrypted struct {
	Encryption Encryption `json:"encryption"`
	// Key is the public key of the Node, by IPsec its identity, and Port that of UDP.
	Key  string `json:"key"`
	Port uint16 `json:"port"`
	// Nodes counts those that are reached so.
	Nodes int `json:"nodes"`
	// InAgent tells that a process encrypts, because the kernel cannot: the agent by WireGuard,
	// charon by IPsec.
	InAgent bool `json:"inAgent,omitempty"`
}

// By is the name of the protocol that encrypts, for people.
func (e *Encrypted) By() string {
	switch {
	case e.InAgent && e.Encryption.IPsec():
		return "charon itself (kernel-libipsec)"
	case e.InAgent:
		return "the agent, because the kernel has no WireGuard"
	}
	return "the kernel"
}

// Services are those that an agent leads to.
type Services struct {
	// Places are the addresses and ports by which they are reached.
	Places int `json:"places"`
	// Trouble is what is wrong; empty for nothing.
	Trouble string `json:"trouble,omitempty"`
}

// Trouble is all that is wrong, as one text; empty for nothing.
func (s *Status) Trouble() string {
	if s == nil {
		return ""
	}
	words := slices.Clone(s.Problems)
	if s.Services != nil && s.Services.Trouble != "" {
		words = append(words, s.Services.Trouble)
	}
	if s.Error != "" {
		words = append(words, s.Error)
	}
	return strings.Join(words, "; ")
}
