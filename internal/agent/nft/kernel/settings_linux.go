package kernel

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Settings reads what is set in the kernel and bears on enforcement, below /proc/sys or another
// folder.
type Settings struct{ Proc string }

// Forwards are the families of which the host passes packets on between others.
func (s Settings) Forwards() []string {
	var out []string
	for _, f := range []struct{ name, setting string }{{"IPv4", "net/ipv4/ip_forward"}, {"IPv6", "net/ipv6/conf/all/forwarding"}} {
		if s.value(f.setting) == "1" {
			out = append(out, f.name)
		}
	}
	return out
}

// Connections are how many conntrack follows, and how many it can: those beyond are dropped. Both
// are 0 where that is not known.
func (s Settings) Connections() (now, most int) {
	now, err1 := strconv.Atoi(s.value("net/netfilter/nf_conntrack_count"))
	most, err2 := strconv.Atoi(s.value("net/netfilter/nf_conntrack_max"))
	if err1 != nil || err2 != nil {
		return 0, 0
	}
	return now, most
}

func (s Settings) value(name string) string {
	text, _ := os.ReadFile(filepath.Join(s.Proc, name))
	return strings.TrimSpace(string(text))
}
