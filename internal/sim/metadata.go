package sim

import (
	"net/http"

	"github.com/nephele-io/nephele/internal/sim/imds"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// Metadata is the metadata service of an instance, for whoever plays its host.
func (s *Server) Metadata(account, region, instance string) (http.Handler, error) {
	r, err := s.world.Region(account, region)
	if err != nil {
		return nil, err
	}
	if _, err := r.Instances(instance); err != nil {
		return nil, err
	}
	signer, err := s.signer()
	if err != nil {
		return nil, err
	}
	return signer.Handler(func() (imds.Document, bool) {
		found, err := r.Instances(instance)
		if err != nil || len(found) != 1 || found[0].State != world.Running {
			return imds.Document{}, false
		}
		i := &found[0]
		d := imds.Document{
			AccountID: account, Architecture: "x86_64", AvailabilityZone: i.Zone, ImageID: i.ImageID, InstanceID: i.ID, InstanceType: i.InstanceType,
			PendingTime: i.LaunchTime.UTC(), Region: region, Version: "2017-09-30",
		}
		if n := i.Primary(); n != nil && len(n.PrivateIPs) > 0 {
			d.PrivateIP = n.PrivateIPs[0].Addr.String()
		}
		return d, true
	}, s.Now), nil
}

// MetadataCertificate is the certificate in PEM that identity documents are checked by.
func (s *Server) MetadataCertificate() ([]byte, error) {
	signer, err := s.signer()
	if err != nil {
		return nil, err
	}
	return signer.CertificatePEM(), nil
}
