package main

import (
	"github.com/go-logr/logr"

	"github.com/nephele-io/nephele/internal/agent/network/links"
	"github.com/nephele-io/nephele/internal/agent/network/wireguard"
	"github.com/nephele-io/nephele/internal/agent/nodenetwork"
	"github.com/nephele-io/nephele/internal/cli/agentcmd"
)

// sealing is by WireGuard. No other program links it.
func sealing() agentcmd.Sealing {
	return func(stateDir string, kernel *links.Kernel, log logr.Logger) (nodenetwork.Keys, links.Sealer, error) {
		keys, err := wireguard.OpenKeys(stateDir)
		if err != nil {
			return nil, nil, err
		}
		return keys, wireguard.New(wireguard.Options{Keys: keys, Handle: kernel.Handle(), Log: log}), nil
	}
}
