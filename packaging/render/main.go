// Command render prints what a chart installs, as JSON: for tests of other modules, which so need
// no helm.
//
// It owns its flags only. It promises exit code 0 only if everything was rendered.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/packaging/chart"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func run() error {
	// Helm tells of the links by which the charts hold the manifests.
	log.SetOutput(io.Discard)
	dir := flag.String("chart", "../charts/nephele", "directory of the chart")
	every := flag.Bool("every", false, "print every object of every combination of switches once, instead of one release with the values on standard input")
	flag.Parse()
	c, err := chart.Load(*dir)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	if *every {
		var mu sync.Mutex
		seen := map[string]bool{}
		err = chart.Combinations(chart.Switches(), func(name string, values map[string]any) error {
			objects, err := c.Render(values)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, o := range objects {
				raw, err := json.Marshal(o)
				if err != nil {
					return err
				}
				if seen[string(raw)] {
					continue
				}
				seen[string(raw)] = true
				if err := encoder.Encode(map[string]any{"of": name, "object": o}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return out.Flush()
	}
	raw, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict(raw, &values); err != nil {
		return fmt.Errorf("values: %w", err)
	}
	objects, err := c.Render(values)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := encoder.Encode(map[string]any{"object": o}); err != nil {
			return err
		}
	}
	return out.Flush()
}
