package sim

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/arm"
	"github.com/nephele-io/nephele/internal/sim/azure"
)

// AzureOptions are about the Azure side. It is there if the state has one.
type AzureOptions struct {
	// Listen is the TCP address of login and Resource Manager; "" means a free port of 127.0.0.1.
	Listen string
	// OperationDelay and GraphLag go into azure.Settings.
	OperationDelay, GraphLag time.Duration
	// PageSize is that of arm.Config.
	PageSize int
}

// azureSide is the second listener. Nothing in it changes after it has been opened.
type azureSide struct {
	handler     *arm.Handler
	throttle    *arm.Throttle
	listener    net.Listener
	certificate []byte // PEM
	http        *http.Server
	served      chan struct{}
	serveErr    error // written before served is closed
}

// certificateLife is how long the certificate of the Azure side is good. It is made anew with every
// start.
const certificateLife = 10 * 365 * 24 * time.Hour

// openAzure opens the listener if the world has an Azure side; else it returns nil.
func openAzure(ctx context.Context, s *Server, o Options) (*azureSide, error) {
	exists := false
	s.world.ReadAzure(func(c *azure.Cloud, _ time.Time) {
		all := c.State()
		exists = !all.Empty()
	})
	if !exists {
		return nil, nil
	}
	listen := o.Azure.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	inner, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("start the simulator's Azure side: %w", err)
	}
	pair, text, err := selfSigned()
	if err != nil {
		return nil, errors.Join(err, inner.Close())
	}
	a := &azureSide{certificate: text, served: make(chan struct{})}
	a.listener = tls.NewListener(inner, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	if o.Throttle {
		a.throttle = arm.NewThrottle(s.clock.now, o.ThrottleSpeed)
	}
	a.handler = arm.NewHandler(arm.Config{
		World: s.world, Clock: s.clock.now, NoAuth: o.NoAuth, Latency: o.Latency, Throttle: a.throttle, Faults: s.faults, Journal: s.journal,
		PageSize: o.Azure.PageSize, OnCall: s.onCall(o.OnCall),
	})
	return a, nil
}

// selfSigned makes a certificate for this machine that is its own authority.
func selfSigned() (tls.Certificate, []byte, error) {
	fail := func(err error) (tls.Certificate, []byte, error) {
		return tls.Certificate{}, nil, fmt.Errorf("make the certificate of the Azure side: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fail(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "Nephele cloud simulator"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLife), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return fail(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

func (a *azureSide) serve(handler http.Handler, base context.Context) {
	a.http = new(unused).of(&http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return base }, ReadHeaderTimeout: 10 * time.Second})
	go func() {
		defer close(a.served)
		if err := a.http.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
			a.serveErr = fmt.Errorf("serve the Azure side: %w", err)
		}
	}()
}

func (a *azureSide) close(ctx context.Context) error {
	err := a.http.Shutdown(ctx)
	if err != nil {
		err = a.http.Close()
	}
	<-a.served
	return errors.Join(err, a.serveErr)
}

// AzureURL is the URL of login and Resource Manager; empty if there is no Azure side.
func (s *Server) AzureURL() string {
	if s.azure == nil {
		return ""
	}
	addr, ok := s.azure.listener.Addr().(*net.TCPAddr)
	if ok && addr.IP.IsUnspecified() {
		return fmt.Sprintf("https://127.0.0.1:%d", addr.Port)
	}
	return "https://" + s.azure.listener.Addr().String()
}

// AzureCertificate is the certificate of the Azure side, in PEM; nil if there is none.
func (s *Server) AzureCertificate() []byte {
	if s.azure == nil {
		return nil
	}
	return s.azure.certificate
}

// AzureThrottle is nil unless Options.Throttle is set and there is an Azure side.
func (s *Server) AzureThrottle() *arm.Throttle {
	if s.azure == nil {
		return nil
	}
	return s.azure.throttle
}

// adminAzure adds the admin endpoints of the Azure side.
func (o operator) adminAzure(mux *http.ServeMux, handle func(string, func(*http.Request) (any, error))) {
	mux.HandleFunc("GET /_sim/azure/ca.pem", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-pem-file")
		_, _ = w.Write(o.s.AzureCertificate()) // a caller that has gone away is given nothing
	})
	handle("GET /_sim/azure/allowed", o.getAzureAllowed)
	handle("POST /_sim/azure/settings", o.postAzureSettings)
	handle("POST /_sim/azure/denials", func(r *http.Request) (any, error) {
		var all []azure.Denial
		if err := readJSON(r, &all); err != nil {
			return nil, err
		}
		return nil, o.changeAzure("SetDenials", func(c *azure.Cloud) error { c.SetDenials(all); return nil })
	})
	handle("POST /_sim/azure/locks", func(r *http.Request) (any, error) {
		var all []azure.Lock
		if err := readJSON(r, &all); err != nil {
			return nil, err
		}
		return nil, o.changeAzure("SetLocks", func(c *azure.Cloud) error { c.SetLocks(all); return nil })
	})
	handle("POST /_sim/azure/limits", func(r *http.Request) (any, error) {
		var l azure.Limits
		if err := readJSON(r, &l); err != nil {
			return nil, err
		}
		return nil, o.changeAzure("SetLimits", func(c *azure.Cloud) error {
			if err := c.SetLimits(r.FormValue("subscription"), l); err != nil {
				return badRequest{err}
			}
			return nil
		})
	})
}

func (o operator) changeAzure(action string, f func(*azure.Cloud) error) error {
	return o.s.world.ChangeAzure("", "", action, func(c *azure.Cloud, _ time.Time) ([]string, error) { return nil, f(c) })
}

// postAzureSettings: delay= is how long operations take, lag= how far Resource Graph is behind;
// what is not given stays.
func (o operator) postAzureSettings(r *http.Request) (any, error) {
	var out azure.Settings
	o.s.world.ReadAzure(func(c *azure.Cloud, _ time.Time) { out = c.Settings() })
	for name, into := range map[string]*time.Duration{"delay": &out.Delay, "lag": &out.Lag} {
		text := r.FormValue(name)
		if text == "" {
			continue
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return nil, badf("%s is %q, expected a duration such as 2s", name, text)
		}
		*into = d
	}
	return map[string]string{"delay": out.Delay.String(), "lag": out.Lag.String()}, o.changeAzure("Set", func(c *azure.Cloud) error { c.Set(out); return nil })
}

// getAzureAllowed: src and dst are an address, the id of an interface, or the name of an interface
// or of a virtual machine that is the only one of that name.
func (o operator) getAzureAllowed(r *http.Request) (any, error) {
	var v azure.Verdict
	var err error
	o.s.world.ReadAzure(func(c *azure.Cloud, _ time.Time) {
		f := azure.Flow{}
		if f.Src, err = azureEnd(c, r.FormValue("src"), r.FormValue("srcvnet")); err != nil {
			return
		}
		if f.Dst, err = azureEnd(c, r.FormValue("dst"), r.FormValue("dstvnet")); err != nil {
			return
		}
		if f.Protocol, err = protocol(r.FormValue("proto")); err != nil {
			return
		}
		if text := r.FormValue("port"); text != "" {
			if f.Port, err = strconv.Atoi(text); err != nil || f.Port < 0 || f.Port > 65535 {
				err = badf("port is %q, expected 0 to 65535", text)
				return
			}
		}
		if v, err = c.Verdicts().Allowed(f); err != nil {
			err = badRequest{err}
		}
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

func azureEnd(c *azure.Cloud, text, network string) (azure.End, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return azure.End{Addr: a, Network: network}, nil
	}
	if strings.HasPrefix(text, "/") {
		return azure.End{NIC: text}, nil
	}
	nics := c.Verdicts().InterfacesNamed(text)
	if len(nics) != 1 {
		return azure.End{}, badf("%d interfaces are named %q or are of a virtual machine of that name, expected one", len(nics), text)
	}
	return azure.End{NIC: nics[0]}, nil
}
