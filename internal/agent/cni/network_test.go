package cni

import (
	"net/netip"
	"strings"
	"testing"
)

func addresses(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

// TestWhatPluginAndAgentSay: neither believes the other what cannot be.
func TestWhatPluginAndAgentSay(t *testing.T) {
	good := func() Wanted {
		return Wanted{Attachment{Container: "c", Interface: "eth0", Namespace: "n", Name: "p"}, Protocol}
	}
	for want, change := range map[string]func(w *Wanted){
		"":                     func(*Wanted) {},
		"speaks version 7":     func(w *Wanted) { w.Protocol = 7 },
		"speaks version 0":     func(w *Wanted) { w.Protocol = 0 },
		"must not name any":    func(w *Wanted) { w.Addresses = addresses("10.0.0.1") },
		"the id of a":          func(w *Wanted) { w.Container = "" },
		"id of a container":    func(w *Wanted) { w.Container = strings.Repeat("c", 300) },
		"name of an interface": func(w *Wanted) { w.Interface = "" },
		"namespace":            func(w *Wanted) { w.Namespace = "a/b" },
		"name \"\"":            func(w *Wanted) { w.Name = "" },
		"uid":                  func(w *Wanted) { w.UID = strings.Repeat("u", 300) },
	} {
		w := good()
		change(&w)
		if err := w.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", w, err, want)
		}
	}
	for want, a := range map[string]Assigned{
		"":                   {Addresses: addresses("10.0.0.1", "fd00::1"), Gateways: addresses("169.254.1.1", "fe80::1"), MTU: 1450},
		"0 addresses":        {Gateways: addresses("169.254.1.1"), MTU: 1450},
		"0 gateways":         {Addresses: addresses("10.0.0.1"), MTU: 1450},
		"MTU 0":              {Addresses: addresses("10.0.0.1"), Gateways: addresses("169.254.1.1")},
		"MTU 70000":          {Addresses: addresses("10.0.0.1"), Gateways: addresses("169.254.1.1"), MTU: 70000},
		"address 224.0.0.1":  {Addresses: addresses("224.0.0.1"), Gateways: addresses("169.254.1.1"), MTU: 1450},
		"address invalid IP": {Addresses: []netip.Addr{{}}, Gateways: addresses("169.254.1.1"), MTU: 1450},
		"address fe80::1%x":  {Addresses: addresses("10.0.0.1"), Gateways: addresses("fe80::1%x"), MTU: 1450},
		"no gateway for":     {Addresses: addresses("10.0.0.1", "fd00::1"), Gateways: addresses("169.254.1.1"), MTU: 1450},
	} {
		if err := a.check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", a, err, want)
		}
	}
}
