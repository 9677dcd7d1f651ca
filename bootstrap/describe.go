package bootstrap

import (
	"context"
	"fmt"

	"github.com/eksnode/packer-plugin-eksnode/bootstrap/arguments"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/instance"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/machine"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/internal/node"
	"github.com/eksnode/packer-plugin-eksnode/bootstrap/nodeconfig"
	"github.com/eksnode/packer-plugin-eksnode/host"
)

// FromNodeConfig returns the node that a NodeConfig describes. cache is the file
// that keeps the NodeConfig and the facts about the instance until the next boot;
// empty means no cache.
func (s Surroundings) FromNodeConfig(ctx context.Context, h *host.Host, c *nodeconfig.NodeConfig, cache string) (*node.Node, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("checking the NodeConfig:\n%w", err)
	}
	s.warn(c.Warnings())
	m, err := machine.Gather(ctx, h, s.Command)
	if err != nil {
		return nil, err
	}
	aws, err := s.AWS(ctx, c.Spec.Instance.Environment[nodeconfig.DefaultEnvironment])
	if err != nil {
		return nil, err
	}
	i, err := s.cachedFacts(ctx, h, cache, c, aws, node.WantsOf(c, m))
	if err != nil {
		return nil, err
	}
	pause := machine.LocalPauseImage
	if !m.HasPause {
		pause = s.pauseImage(ctx, m, i, "", arguments.New().PauseVersion)
	}
	n, warnings, err := node.FromNodeConfig(c, i, m, pause)
	if err != nil {
		return nil, err
	}
	s.warn(warnings)
	return n, nil
}

// FromArguments returns the node that the arguments of bootstrap.sh describe.
func (s Surroundings) FromArguments(ctx context.Context, h *host.Host, a *arguments.Arguments) (*node.Node, error) {
	s.warn(a.Warnings)
	if err := a.Validate(); err != nil {
		return nil, fmt.Errorf("checking the arguments:\n%w", err)
	}
	if warning, _ := nodeconfig.ReadEndpoint(a.Endpoint); warning != "" && !a.Describe() {
		s.warn([]string{"--apiserver-endpoint: " + warning})
	}
	call := node.Call{Arguments: a}
	var err error
	if call.Machine, err = machine.Gather(ctx, h, s.Command); err != nil {
		return nil, err
	}
	aws, err := s.AWS(ctx, nil)
	if err != nil {
		return nil, err
	}
	if a.Describe() {
		id, err := instance.ReadIdentity(ctx, s.IMDS)
		if err != nil {
			return nil, err
		}
		described, err := aws.DescribeCluster(ctx, id.Region, a.Cluster, a.RetryAttempts)
		if err != nil {
			return nil, fmt.Errorf("describing the cluster %s: %w; set --apiserver-endpoint and --b64-cluster-ca to skip this request", a.Cluster, err)
		}
		call.Described = &described
	}
	if call.Instance, err = s.facts(ctx, aws, call.Wants()); err != nil {
		return nil, err
	}
	filled, err := readTemplates(h, &call)
	if err != nil {
		return nil, err
	}
	s.warn(filled)
	call.PauseImage = machine.LocalPauseImage
	switch {
	case a.PauseImage != "":
		call.PauseImage = a.PauseImage + ":" + a.PauseVersion
	case !call.Machine.HasPause || a.PauseAccount != "" || a.PauseVersion != arguments.New().PauseVersion:
		call.PauseImage = s.pauseImage(ctx, call.Machine, call.Instance, a.PauseAccount, a.PauseVersion)
	}
	n, warnings, err := call.Node()
	if err != nil {
		return nil, err
	}
	s.warn(warnings)
	return n, nil
}

func (s Surroundings) facts(ctx context.Context, aws AWS, want instance.Wants) (instance.Facts, error) {
	i, warnings, err := instance.Gather(ctx, s.IMDS, aws, want)
	s.warn(warnings)
	return i, err
}

// pauseImage returns EKS's pause image in the region's registry. A kernel in FIPS
// mode uses the registry's FIPS endpoint, if the region has one.
func (s Surroundings) pauseImage(ctx context.Context, m machine.Facts, i instance.Facts, account, version string) string {
	r := node.RegistryOf(i.Region, i.Domain, account)
	if m.FIPS {
		name := r.Host(true)
		if _, err := s.Lookup(ctx, name); err == nil {
			return node.PauseImage(name, version)
		}
		s.Log("warning: " + name + " does not resolve: the pause image comes from an endpoint that is not validated for FIPS")
	}
	return node.PauseImage(r.Host(false), version)
}

func (s Surroundings) warn(lines []string) {
	for _, l := range lines {
		s.Log("warning: " + l)
	}
}
