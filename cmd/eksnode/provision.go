package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	eksnode "github.com/eksnode/packer-plugin-eksnode"
	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/agent"
	"github.com/eksnode/packer-plugin-eksnode/internal/asset"
	"github.com/eksnode/packer-plugin-eksnode/internal/strictjson"
	"github.com/eksnode/packer-plugin-eksnode/plan"
	"github.com/eksnode/packer-plugin-eksnode/provisioner"
)

// provisionCommand is the eksnode provisioner without Packer.
func provisionCommand() *cobra.Command {
	var spec provisioner.Spec
	var file, lockFile string
	var archives []string
	var dryRun bool
	var out output
	cmd := &cobra.Command{
		Use:     "provision",
		Short:   "Make this machine an EKS node",
		Example: "  eksnode provision --kubernetes-version 1.34.4 --dry-run",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				if err := errors.Join(alone(cmd.Flags()), readSpec(file, &spec)); err != nil {
					return err
				}
			}
			if err := readLockInto(lockFile, &spec); err != nil {
				return err
			}
			if len(archives) > 0 && len(spec.Images) == 0 && spec.PauseImage == "" {
				return errors.New("--image-archive has no effect without --image or --pause-image: name those that the node shall have")
			}
			if err := spec.Validate(); err != nil {
				if file == "" {
					err = words{cmd.Flags(), true}.err(err)
				}
				return err
			}
			run := plan.Report{Command: string(agent.Provision), Machine: plan.Machine{Root: "/"}}
			if err := out.begin(cmd, run, dryRun); err != nil {
				return err
			}
			h, err := host.Live()
			if err != nil {
				return err
			}
			defer h.Close()
			p := &printer{w: cmd.ErrOrStderr()}
			supply, err := supplyOf(spec, archives)
			if err != nil {
				return err
			}
			// The report holds the error too.
			r, _ := eksnode.Provision(cmd.Context(), h, spec, eksnode.Options{DryRun: dryRun, Sink: progressSink{p}, Supply: supply})
			if file == "" {
				r = words{flags: cmd.Flags()}.report(r)
			}
			return out.finish(cmd, r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&file, "spec", "", "read the whole spec from this JSON file")
	f.StringVar(&spec.Distro, "distro", "", "treat the machine as this distribution")
	f.StringVar(&spec.KubernetesVersion, "kubernetes-version", "", "the kubelet's version, such as 1.34.4")
	f.StringVar(&spec.Source, "source", "", "the publisher: "+strings.Join(asset.OriginIDs(), ", "))
	f.StringVar(&spec.EKSBuildDate, "eks-build-date", "", "the day of EKS' build, for --source eks-bucket")
	f.StringVar(&spec.SourceURL, "source-url", "", "a mirror or folder that has each asset at URL/<publisher's host>/<publisher's path>")
	f.StringSliceVar(&spec.Images, "image", nil, "container images that the node has before it starts, such as registry.k8s.io/coredns/coredns:v1.12.1@sha256:…")
	f.StringVar(&spec.PauseImage, "pause-image", "", "the pause image, written the same")
	f.StringSliceVar(&archives, "image-archive", nil, "OCI archives that are asked for images before any registry")
	f.BoolVar(&spec.SBOM, "sbom", false, "lay a CycloneDX bill of materials beside the image's manifest")
	f.StringVar(&lockFile, "lock-file", "", "refuse anything that is not what this lock file says")
	f.StringToStringVar(&spec.Versions, "asset-version", nil, "another version of an asset, such as cni-plugins=1.9.1")
	f.StringToStringVar(&spec.Checksums, "asset-checksum", nil, "the SHA-256 an asset must have, by its name")
	f.StringSliceVar(&spec.Packages, "package", nil, "packages to install besides")
	f.StringToStringVar(&spec.Sysctls, "sysctl", nil, "kernel parameters to set besides")
	f.StringToStringVar(&spec.PackageVersions, "package-version", nil, "a package in just this version, held, such as runc=1.1.12-1")
	f.StringSliceVar(&spec.KernelArguments, "kernel-argument", nil, "arguments for the kernel's command line")
	f.StringVar(&spec.NVIDIAContainerToolkit, "nvidia-container-toolkit", "", "install it; how containers name their GPUs: "+strings.Join(provisioner.DeviceLists(), " or "))
	f.BoolVar(&spec.EFA, "efa", false, "prepare the node for Elastic Fabric Adapter")
	f.BoolVar(&spec.FIPS, "fips", false, "stop unless the machine runs in FIPS mode")
	f.StringVar(&spec.Bootstrap, "bootstrap", "", "who configures the node at its first boot: "+strings.Join(provisioner.Bootstraps(), " (the default) or "))
	f.StringSliceVar(&spec.Hardening, "hardening", nil, "settings of the CIS benchmarks: "+strings.Join(provisioner.Hardenings(), ", "))
	f.Var(&authorities{&spec}, "ca-certificate", "a certificate authority to trust, such as example=ca.pem")
	f.BoolVar(&dryRun, "dry-run", false, "print what would be done and change nothing")
	out.flags(cmd)
	return cmd
}

// authorities is the flag that reads certificates from files.
type authorities struct{ spec *provisioner.Spec }

// Type is what help calls its value.
func (*authorities) Type() string { return "name=file" }

func (*authorities) String() string { return "" }

// Set takes one NAME=FILE.
func (a *authorities) Set(value string) error {
	name, file, _ := strings.Cut(value, "=")
	if name == "" || file == "" {
		return fmt.Errorf("%q must be NAME=FILE", value)
	}
	if err := expanded(file); err != nil {
		return err
	}
	text, err := readFile(file)
	if err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	if a.spec.CACertificates == nil {
		a.spec.CACertificates = map[string]string{}
	}
	a.spec.CACertificates[name] = string(text)
	return nil
}

// besideSpec are the flags of provision that say nothing a spec says.
var besideSpec = []string{"spec", "lock-file", "image-archive", "dry-run", "output", "report"}

// alone refuses flags that a spec file would contradict, or be mixed with.
func alone(set *pflag.FlagSet) error {
	var errs []error
	set.Visit(func(f *pflag.Flag) {
		if !slices.Contains(besideSpec, f.Name) {
			errs = append(errs, fmt.Errorf("--%s cannot be given with --spec, which is the whole spec: write it into the file", f.Name))
		}
	})
	return errors.Join(errs...)
}

// readSpec reads a spec file; unknown fields are errors.
func readSpec(name string, spec *provisioner.Spec) error {
	text, err := readFile(name)
	if err != nil {
		return fmt.Errorf("reading the spec: %w", err)
	}
	if err := strictjson.Read(text, spec); err != nil {
		return fmt.Errorf("reading the spec %s: %w", name, err)
	}
	return nil
}
