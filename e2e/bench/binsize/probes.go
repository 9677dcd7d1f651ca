package binsize

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// Imports lists the import paths of all that a package of the agent needs.
func Imports(ctx context.Context, module, pkg string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-tags", agentTag, "-deps", pkg)
	cmd.Dir = module
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing what %s imports: %w", pkg, err)
	}
	return strings.Fields(string(out)), nil
}

// Of picks the probes of what is imported.
func Of(probes []Probe, imports []string) []Probe {
	return slices.DeleteFunc(slices.Clone(probes), func(p Probe) bool {
		return slices.ContainsFunc(p.Imports, func(path string) bool { return !slices.Contains(imports, path) })
	})
}

// AgentProbes are the dependencies, large ones and such as look large, that the
// agent has or may come to have, each used as the agent uses it.
func AgentProbes() []Probe {
	return []Probe{
		{
			Name: "net/http with TLS", Imports: []string{"net/http"},
			Use: `client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}}
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, os.Args[1], nil)
		response, err := client.Do(request)
		fmt.Fprintln(out, response, err)`,
		},
		{
			Name: "cobra and pflag", Imports: []string{"github.com/spf13/cobra"},
			Use: `command := &cobra.Command{Use: "probe", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
		command.Flags().StringSlice("some", nil, "")
		command.Flags().Bool("one", false, "")
		command.SetIn(in)
		command.SetOut(out)
		fmt.Fprintln(out, command.ExecuteContext(ctx))`,
		},
		{
			Name: "encoding/json", Imports: []string{"encoding/json"},
			Use: `var value struct{ Map map[string]string; List []int }
		decoder := json.NewDecoder(in)
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&value)
		text, _ := json.MarshalIndent(value, "", "  ")
		fmt.Fprintln(out, err, string(text))`,
		},
		{
			Name: "afero", Imports: []string{"github.com/spf13/afero"},
			Use: `var files afero.Fs = afero.NewOsFs()
		matches, err := afero.Glob(files, os.Args[1])
		text, _ := afero.ReadFile(files, os.Args[1])
		fmt.Fprintln(out, matches, err, text)`,
		},
		{
			Name: "klauspost gzip", Imports: []string{"github.com/klauspost/compress/gzip"},
			Use: `zipped, err := gzip.NewReader(in)
		if err == nil {
			_, err = io.Copy(out, zipped)
		}
		fmt.Fprintln(out, err)`,
		},
		{
			Name: "archive/tar", Imports: []string{"archive/tar"},
			Use: `head, err := tar.NewReader(in).Next()
		fmt.Fprintln(out, head.Name, err)`,
		},
		{
			Name: "regexp", Imports: []string{"regexp"},
			Use: `fmt.Fprintln(out, regexp.MustCompile(os.Args[1]).FindStringSubmatch(os.Args[0]))`,
		},
		{
			Name: "mountinfo", Imports: []string{"github.com/moby/sys/mountinfo"},
			Use: `mounts, err := mountinfo.GetMountsFromReader(in, mountinfo.PrefixFilter(os.Args[1]))
		fmt.Fprintln(out, len(mounts), err)`,
		},
		{
			Name: "yaml", Imports: []string{"go.yaml.in/yaml/v3"},
			Use: `var node yaml.Node
		err := yaml.NewDecoder(in).Decode(&node)
		text, _ := yaml.Marshal(&node)
		fmt.Fprintln(out, err, string(text))`,
		},
		{
			Name: "bbolt", Imports: []string{"go.etcd.io/bbolt"},
			Use: `database, err := bbolt.Open(os.Args[1], 0o600, nil)
		if err == nil {
			err = database.View(func(tx *bbolt.Tx) error { return tx.Bucket(nil).ForEach(func(k, v []byte) error { return nil }) })
		}
		fmt.Fprintln(out, err)`,
		},
		{
			Name: "TOML", Imports: []string{"github.com/pelletier/go-toml/v2"},
			Use: `var value map[string]any
		err := toml.NewDecoder(in).Decode(&value)
		fmt.Fprintln(out, err, value)`,
		},
		{
			Name: "zstd", Imports: []string{"github.com/klauspost/compress/zstd"},
			Use: `unpacked, err := zstd.NewReader(in)
		if err == nil {
			_, err = io.Copy(out, unpacked)
		}
		fmt.Fprintln(out, err)`,
		},
	}
}
