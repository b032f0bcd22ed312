package sim

import (
	"fmt"
	"net/http"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
	"github.com/nephele-io/nephele/internal/sim/imds"
)

// Metadata is the metadata service of an instance, for a test that plays its host.
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
		if err != nil || len(found) != 1 || found[0].State != aws.Running {
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

// AzureMetadata is the metadata service of a virtual machine of Azure, by its resource id, for a
// test that plays its host.
func (s *Server) AzureMetadata(machine string) (http.Handler, error) {
	id, ok := document.ParseID(machine)
	if !ok {
		return nil, fmt.Errorf("%q is no resource id", machine)
	}
	attester, err := s.attester()
	if err != nil {
		return nil, err
	}
	return attester.Handler(func() (d imds.Attested, ok bool) {
		s.world.ReadAzure(func(c *azure.Cloud, _ time.Time) {
			d.VMID, ok = c.Running(id)
		})
		d.SubscriptionID, d.Plan = id.Subscription, map[string]string{"name": "", "product": "", "publisher": ""}
		return d, ok
	}, s.Now), nil
}

// AzureMetadataAuthority is the certificate in PEM of the authority behind the signatures of
// attested documents.
func (s *Server) AzureMetadataAuthority() ([]byte, error) {
	attester, err := s.attester()
	if err != nil {
		return nil, err
	}
	return attester.AuthorityPEM(), nil
}
