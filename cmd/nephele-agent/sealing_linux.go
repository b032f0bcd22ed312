package main

import (
	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/nephele-io/nephele/internal/agent/network/ipsec"
	"github.com/nephele-io/nephele/internal/agent/network/links"
	"github.com/nephele-io/nephele/internal/agent/network/wireguard"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/cli/agentcmd"
)

// sealing is by WireGuard or IPsec. No other program links these.
func sealing() *agentcmd.Sealing {
	return &agentcmd.Sealing{
		WireGuard: func(stateDir string, kernel *links.Kernel, log logr.Logger) (nodenetwork.Keys, links.Sealer, error) {
			keys, err := wireguard.OpenKeys(stateDir)
			if err != nil {
				return nil, nil, err
			}
			return keys, wireguard.New(wireguard.Options{Keys: keys, Handle: kernel.Handle(), Log: log}), nil
		},
		IPsec: func(o agentcmd.IPsecOptions) (nodenetwork.IPsec, links.Sealer, error) {
			own, err := ipsec.OpenCredential(o.StateDir)
			if err != nil {
				return nil, nil, err
			}
			d := ipsec.New(ipsec.Options{Credential: own, Socket: o.Socket, Handle: o.Kernel.Handle(), Certify: o.Certify, Clock: clock.RealClock{}, Log: o.Log})
			return d, d, nil
		},
		LeaveIPsec: ipsec.Leave,
	}
}
