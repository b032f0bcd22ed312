package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
)

// nfDrop is NF_DROP.
const nfDrop = 0

// families are those in which others can filter what our table filters.
func families() map[string]uint8 {
	return map[string]uint8{"inet": unix.NFPROTO_INET, "ip": unix.NFPROTO_IPV4, "ip6": unix.NFPROTO_IPV6}
}

// Foreign returns the filters of others on the way of the host's traffic, sorted. A chain that
// neither drops nor has a table with rules is left out. Rules of the kernel's former iptables
// interface are no part of nftables and are not seen.
func (t *Table) Foreign() ([]Filter, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []Filter
	rules := map[Filter]int{}
	for name, family := range families() {
		err := t.socket.Ask(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETCHAIN, family, true, nil, func(_ uint16, body []byte) error {
			f, err := parseFilter(body)
			if err == nil && f.Hook != "" && (family != unix.NFPROTO_INET || f.Table != t.name) {
				f.Family = name
				found = append(found, f)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read the chains of others: %w", err)
		}
	}
	for _, f := range found {
		table := Filter{Family: f.Family, Table: f.Table}
		if _, counted := rules[table]; counted {
			continue
		}
		rules[table] = 0
		attrs := netfilter.Text(nil, unix.NFTA_RULE_TABLE, f.Table)
		err := t.socket.Ask(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETRULE, families()[f.Family], true, attrs, func(uint16, []byte) error {
			rules[table]++
			return nil
		})
		if err != nil && !errors.Is(err, unix.ENOENT) { // it is gone
			return nil, fmt.Errorf("read the rules of others: %w", err)
		}
	}
	var out []Filter
	for _, f := range found {
		if f.Rules = rules[Filter{Family: f.Family, Table: f.Table}]; f.Rules > 0 || f.Drops {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b Filter) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Chain, b.Chain))
	})
	return out, nil
}

// parseFilter reads a chain. Hook is empty if it is not a filter of the host's own traffic.
func parseFilter(body []byte) (f Filter, err error) {
	hook, policy := uint32(unix.NF_INET_NUMHOOKS), uint32(nfAccept)
	kind := ""
	err = netfilter.Attributes(body[4:], func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_CHAIN_TABLE:
			f.Table = ad.String()
		case unix.NFTA_CHAIN_NAME:
			f.Chain = ad.String()
		case unix.NFTA_CHAIN_TYPE:
			kind = ad.String()
		case unix.NFTA_CHAIN_POLICY:
			policy = ad.Uint32()
		case unix.NFTA_CHAIN_HOOK:
			_ = netfilter.Attributes(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
				if ad.Type() == unix.NFTA_HOOK_HOOKNUM {
					hook = ad.Uint32()
				}
			})
		}
	})
	if kind == "filter" {
		f.Hook = map[uint32]string{unix.NF_INET_LOCAL_IN: "input", unix.NF_INET_LOCAL_OUT: "output"}[hook]
	}
	f.Drops = policy == nfDrop
	return f, err
}

// KubeProxy returns by what kube-proxy leads to Services, in its modes nftables and iptables; empty
// if it does not.
func (t *Table) KubeProxy() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := ""
	for _, name := range []string{"ip", "ip6"} {
		err := t.socket.Ask(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETCHAIN, families()[name], true, nil, func(_ uint16, body []byte) error {
			f, err := parseFilter(body)
			switch {
			case found != "":
			case f.Table == "kube-proxy":
				found = "table " + name + " kube-proxy"
			case f.Table == "nat" && f.Chain == "KUBE-SERVICES":
				found = "chain KUBE-SERVICES of table " + name + " nat"
			}
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read the chains of others: %w", err)
		}
	}
	return found, nil
}
