package credential

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Invitation is what a host enrolls with: which host it is, a secret that can be used once, and by
// what it knows the server; or the same for all virtual machines of an account, which then say by a
// signature of the cloud which of them they are.
type Invitation struct {
	// Host is the ExternalNode or the Cluster, Account the CloudProviderAccount. One of them is
	// set.
	Host, Account Host
	// Azure says that the account is one of Azure, and not of AWS.
	Azure  bool
	Secret string
	// Authority is the SHA-256 of the certificate of the authority for hosts, in hex.
	Authority string
	// Server is the HOST:PORT by which hosts reach the server of computed policies; empty if they
	// have to be told otherwise. For a Cluster it is that of the hub, or several with commas
	// between them. Nothing is believed of it but that it is worth asking.
	Server string
}

// What begins tokens for accounts, and those for members of the set.
const accountToken, azureToken, clusterToken = "account", "azure-account", "cluster"

// String is the token, in one word.
func (i Invitation) String() string {
	parts := []string{i.Host.String(), i.Secret, i.Authority}
	switch {
	case i.Azure:
		parts = []string{azureToken, i.Account.String(), i.Secret, i.Authority}
	case i.Account != (Host{}):
		parts = []string{accountToken, i.Account.String(), i.Secret, i.Authority}
	case i.Host.IsCluster():
		parts = []string{clusterToken, i.Host.Name, i.Secret, i.Authority}
	}
	token := strings.Join(parts, ":")
	if i.Server != "" {
		token += "@" + i.Server
	}
	return token
}

// ParseInvitation reads a token. Its errors do not repeat the secret.
func ParseInvitation(text string) (Invitation, error) {
	if strings.HasPrefix(strings.TrimSpace(text), clusterToken+":") {
		return Invitation{}, errors.New("this is a token for a cluster: use it with nephele join")
	}
	token, server, named := strings.Cut(strings.TrimSpace(text), "@")
	if host, port, err := net.SplitHostPort(server); named && (err != nil || host == "" || port == "") {
		return Invitation{}, errors.New("this is not a token of nephele enroll-token: want HOST:PORT after @")
	}
	parts := strings.Split(token, ":")
	azure := parts[0] == azureToken && len(parts) == 4
	account := azure || parts[0] == accountToken && len(parts) == 4
	if account {
		parts = parts[1:]
	}
	if len(parts) != 3 || parts[1] == "" {
		return Invitation{}, errors.New("this is not a token of nephele enroll-token: want NAMESPACE/NAME:SECRET:HASH[@HOST:PORT]")
	}
	host, err := ParseHost(parts[0])
	if err != nil {
		return Invitation{}, fmt.Errorf("this is not a token of nephele enroll-token: %w", err)
	}
	if sum, err := hex.DecodeString(parts[2]); err != nil || len(sum) != sha256.Size {
		return Invitation{}, errors.New("this is not a token of nephele enroll-token: its end is not a SHA-256 in hex")
	}
	if account {
		return Invitation{Account: host, Azure: azure, Secret: parts[1], Authority: parts[2], Server: server}, nil
	}
	return Invitation{Host: host, Secret: parts[1], Authority: parts[2], Server: server}, nil
}

// maxServers is how many addresses of a hub a token has.
const maxServers = 8

// ParseClusterInvitation reads a token of nephele cluster token. Its errors do not repeat the
// secret.
func ParseClusterInvitation(text string) (Invitation, error) {
	const want = "this is not a token of nephele cluster token: want cluster:NAME:SECRET:HASH@HOST:PORT"
	token, at, ok := strings.Cut(strings.TrimSpace(text), "@")
	parts := strings.Split(token, ":")
	if !ok || len(parts) != 4 || parts[0] != clusterToken || parts[2] == "" {
		return Invitation{}, errors.New(want)
	}
	if wrong := validation.IsDNS1123Label(parts[1]); len(wrong) > 0 {
		return Invitation{}, errors.New(want + ": the name is none of a Cluster")
	}
	if sum, err := hex.DecodeString(parts[3]); err != nil || len(sum) != sha256.Size {
		return Invitation{}, errors.New(want + ": the hash is not a SHA-256 in hex")
	}
	if err := CheckServers(at); err != nil {
		return Invitation{}, fmt.Errorf("%s: %w", want, err)
	}
	return Invitation{Host: Cluster(parts[1]), Secret: parts[2], Authority: parts[3], Server: at}, nil
}

// CheckServers fails unless a text is HOST:PORT, or several of that with commas between them.
func CheckServers(text string) error {
	servers := strings.Split(text, ",")
	if len(servers) > maxServers {
		return fmt.Errorf("%d addresses, want at most %d", len(servers), maxServers)
	}
	for _, s := range servers {
		host, port, err := net.SplitHostPort(s)
		if err == nil && host != "" && !strings.ContainsAny(host, "/@ ") {
			if n, err := strconv.ParseUint(port, 10, 16); err == nil && n > 0 {
				continue
			}
		}
		return fmt.Errorf("%q: want HOST:PORT", s)
	}
	return nil
}

// Fingerprint is how an authority is named in tokens.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}
