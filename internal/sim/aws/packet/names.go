package packet

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/native"
)

// LookUp returns the addresses that a host name of a service leads to, as a client within the
// network sees them; a balancer that faces the internet has public ones. Nothing is found for
// names that no service has.
func (x *Judge) LookUp(host string) (out []netip.Addr) {
	at, ok := x.hosts[strings.ToLower(host)]
	if !ok {
		return nil
	}
	for _, s := range native.Behind(at.service, at.data.Members(at.service.Ref()), at.readers) {
		out = append(out, addressesOf(at.data, s)...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// hosted is whose a host name is.
type hosted struct {
	service *native.Service
	data    *aws.Resources
	readers bool
}

func addressesOf(d *aws.Resources, s *native.Service) (out []netip.Addr) {
	for _, id := range s.NICs() {
		if n := d.NICs[id]; n != nil && len(n.PrivateIPs) > 0 {
			if s.Kind.Balances() && n.PrivateIPs[0].Public.IsValid() {
				out = append(out, n.PrivateIPs[0].Public)
			} else {
				out = append(out, n.PrivateIPs[0].Addr)
			}
		}
	}
	return out
}
