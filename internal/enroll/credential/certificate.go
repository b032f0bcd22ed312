package credential

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// ServerName is the name by which hosts know the server, whatever its address is.
	ServerName = "nephele-hosts"
	// certificateScheme begins the URI that says whose a certificate is, clusterScheme that of a
	// member of the set.
	certificateScheme = "nephele-host"
	clusterScheme     = "nephele-cluster"
)

// Identity is what a certificate says: the host, its ExternalNode, and which enrolment of that.
type Identity struct {
	Host      Host
	UID       types.UID
	Enrolment string
}

// URI is how a certificate says it.
func (i Identity) URI() *url.URL {
	query := url.Values{"uid": {string(i.UID)}, "enrolment": {i.Enrolment}}.Encode()
	if i.Host.IsCluster() {
		return &url.URL{Scheme: clusterScheme, Host: i.Host.Name, RawQuery: query}
	}
	return &url.URL{Scheme: certificateScheme, Host: i.Host.Namespace, Path: "/" + i.Host.Name, RawQuery: query}
}

// IdentityOf reads the identity in a certificate. It checks nothing else.
func IdentityOf(cert *x509.Certificate) (Identity, error) {
	if len(cert.URIs) != 1 {
		return Identity{}, errors.New("the certificate names no host")
	}
	u := cert.URIs[0]
	var host Host
	switch {
	case u.Scheme == clusterScheme && u.Host != "" && u.Path == "":
		host = Cluster(u.Host)
	case u.Scheme == certificateScheme:
		var err error
		if host, err = ParseHost(u.Host + u.Path); err != nil {
			return Identity{}, fmt.Errorf("the certificate names no host: %w", err)
		}
	default:
		return Identity{}, errors.New("the certificate names no host")
	}
	id := Identity{host, types.UID(u.Query().Get("uid")), u.Query().Get("enrolment")}
	if id.UID == "" || id.Enrolment == "" {
		return Identity{}, errors.New("the certificate does not say which enrolment it is of")
	}
	return id, nil
}

// Certificate is what a certificate of a host says of itself. It is not checked.
type Certificate struct {
	Host            Host
	Issued, Expires time.Time
}

// ParseCertificate reads the first certificate in PEM. It is false for those that are of no host.
func ParseCertificate(text []byte) (Certificate, bool) {
	block, _ := pem.Decode(text)
	if block == nil {
		return Certificate{}, false
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return Certificate{}, false
	}
	id, err := IdentityOf(cert)
	return Certificate{id.Host, cert.NotBefore, cert.NotAfter}, err == nil
}

// Due reports whether it is time to renew: after two thirds of its life.
func (c Certificate) Due(now time.Time) bool {
	return now.After(c.Issued.Add(c.Expires.Sub(c.Issued) * 2 / 3))
}
