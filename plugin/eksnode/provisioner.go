// Package eksnode is the Packer provisioner `eksnode`: it turns the builder machine
// into an EKS node.
package eksnode

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/packer-plugin-sdk/common"
	packersdk "github.com/hashicorp/packer-plugin-sdk/packer"

	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
	"github.com/eksnode/packer-plugin-eksnode/internal/session/agent"
	"github.com/eksnode/packer-plugin-eksnode/plugin/remote"
	"github.com/eksnode/packer-plugin-eksnode/plugin/validate"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// Provisioner implements packersdk.Provisioner.
type Provisioner struct {
	validate.Block[Config]
	kept remote.Kept // Prepare does not reset it
}

// Prepare decodes and checks the fields, and joins all problems.
func (p *Provisioner) Prepare(raws ...any) error {
	if err := p.DecodeRendered("eksnode", raws...); err != nil {
		return err
	}
	lock, err := validate.Lock(&p.Config.LockFile)
	p.Config.Lock = lock
	err = errors.Join(err, validate.Home("hardening_content", &p.Config.HardeningContent))
	if err == nil && !validate.IsUnknown(p.Config.HardeningContent) {
		err = p.Config.ReadContent(&p.Config.Spec)
	}
	check := p.Config.known().Validate
	if validate.IsUnknown(p.Config.KubernetesVersion) {
		check = p.Config.known().ValidateWithoutVersion
	}
	wrong := errors.Join(err, check())
	if wrong == nil { // both report a wrong field
		wrong = p.Config.checkChoice()
	}
	return validate.All(wrong, p.Config.checkDownloads(), p.Config.Config.Prepare())
}

// Provision sends the agent to the machine, which becomes a node.
func (p *Provisioner) Provision(ctx context.Context, ui packersdk.Ui, comm packersdk.Communicator,
	_ map[string]any) error {
	spec, err := p.Config.sent()
	if err != nil {
		return err
	}
	session := remote.New(p.Config.Config, p.Config.PackerConfig, &p.kept, ui, comm)
	session.Supply = p.Config.supply
	return session.Run(ctx,
		agent.Request{Command: agent.Provision, Provision: &spec, SupplyAssets: p.Config.onPackerHost()})
}

// Config holds the fields of a `provisioner "eksnode"` block: those of the spec,
// and those that concern the Packer host.
type Config struct {
	common.PackerConfig `mapstructure:",squash"`
	remote.Config       `mapstructure:",squash"`
	provisioner.Spec    `mapstructure:",squash"`

	// Where downloads run, `machine` or `packer-host`. With `packer-host`, the
	// Packer host caches the downloads and sends them to the machine through
	// Packer's connection; the machine needs a network only for packages. A
	// folder in `source_url` is then on the Packer host. Defaults to `machine`.
	DownloadOn        string `mapstructure:"download_on"`
	provisioner.Local `mapstructure:",squash"`
}

// known returns the spec without the fields that are not known yet, and without
// the fields that depend on them.
func (c *Config) known() provisioner.Spec {
	s := validate.KnownFields(c.Spec)
	if validate.IsUnknown(c.Containerd) || validate.IsUnknown(c.KubernetesVersion) { // which archives there are
		for _, a := range asset.Table() {
			if a.Chosen {
				delete(s.Versions, a.ID)
				delete(s.Checksums, a.ID)
			}
		}
	}
	if validate.IsUnknown(c.SourceURL) {
		s.AllowHTTP = false
	}
	unknown := c.Hardening != nil && (len(c.Hardening) == 0 || slices.ContainsFunc(c.Hardening, validate.IsUnknown))
	if unknown || validate.IsUnknown(c.HardeningContent) { // which levels there are
		s.Hardening, s.HardeningExceptions, s.Guide = nil, nil, nil
	}
	// A map that is not known yet is empty, not nil.
	if c.Repositories != nil && (len(c.Repositories) == 0 ||
		slices.ContainsFunc(slices.Collect(maps.Values(c.Repositories)), validate.IsUnknown)) {
		s.RepositoryKeys, s.KeepRepositories = nil, false
	}
	if validate.IsUnknown(c.Kernel) { // whether drivers have one
		s.NVIDIA, s.Neuron = "", false
	}
	if validate.IsUnknown(c.Proxy) {
		s.NoProxy = nil
	}
	if validate.IsUnknown(c.NodeProxy) {
		s.NodeNoProxy = nil
	}
	if validate.IsUnknown(c.LockFile) { // whether the lock has the images
		s.Containers = provisioner.Containers{}
	}
	if validate.IsUnknown(c.Source) || validate.IsUnknown(c.LockFile) { // whether the day has an effect
		s.EKSBuildDate = ""
	}
	return s
}

// Where downloads are made.
const (
	onMachine    = "machine"
	onPackerHost = "packer-host"
)

func (c *Config) onPackerHost() bool { return c.DownloadOn == onPackerHost }

// sent returns the spec for the machine, when all fields are known. It has no
// folder of the Packer host.
func (c *Config) sent() (provisioner.Spec, error) {
	spec := c.Spec
	if err := spec.Validate(); err != nil {
		return spec, err
	}
	if c.onPackerHost() && strings.HasPrefix(spec.SourceURL, "file://") {
		spec.SourceURL = ""
	}
	return spec, nil
}

// checkDownloads checks the fields for the Packer host.
func (c *Config) checkDownloads() error {
	errs := []error{validate.Home("cache_folder", &c.CacheFolder)}
	for i := range c.ImageArchives {
		errs = append(errs, validate.Home("image_archives", &c.ImageArchives[i]))
	}
	switch on := validate.Known(c.DownloadOn); on {
	case "", onMachine, onPackerHost:
	default:
		errs = append(errs, fmt.Errorf("download_on: %q is not known; known are %s, %s", on, onMachine, onPackerHost))
	}
	if c.DownloadOn == onPackerHost && strings.HasPrefix(c.SourceURL, "file://") && !validate.IsUnknown(c.SourceURL) {
		folder := strings.TrimPrefix(c.SourceURL, "file://")
		if st, err := os.Stat(folder); err != nil || !st.IsDir() {
			errs = append(errs, fmt.Errorf("source_url: %s is not a folder of the Packer host, whose it is with "+
				"download_on = %q", folder, onPackerHost))
		}
	}
	errs = append(errs, c.Local.Check(c.Spec))
	for _, name := range validate.KnownOf(c.ImageArchives) {
		if st, err := os.Stat(name); err != nil || !st.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("image_archives: %s is not a file of the Packer host", name))
		}
	}
	return errors.Join(errs...)
}

// supply returns what a machine of an architecture may want from the Packer host.
func (c *Config) supply(arch string) (provisioner.Supply, error) {
	return c.Local.Supply(c.Spec, arch, awsapi.RegistryLogin(awsapi.Options{}))
}

// checkChoice fails when the fields leave a node without something that the node
// needs. It waits until all fields that decide are known.
func (c *Config) checkChoice() error {
	decide := slices.Concat([]string{c.KubernetesVersion, c.Source, c.EKSBuildDate, c.LockFile, c.Distro, c.Containerd},
		slices.Collect(maps.Values(c.Versions)), slices.Collect(maps.Values(c.Checksums)))
	if slices.ContainsFunc(decide, validate.IsUnknown) {
		return nil
	}
	spec := c.known()
	spec.AllowHTTP = true // a value that is not known yet looks like false; the build itself refuses
	return spec.Choosable()
}
