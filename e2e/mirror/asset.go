package mirror

import (
	"fmt"
	"io/fs"
	"net/url"
)

// SumForm is the format of a checksum file's line for one asset, with the
// SHA-256 in hexadecimal and the asset's file name.
type SumForm string

// Formats that upstreams use.
const (
	// Bare is the sum alone, without a line break, as on dl.k8s.io.
	Bare SumForm = "%[1]s"
	// BareLine is the sum and a line break, as for Kubernetes' AWS cloud provider.
	BareLine SumForm = "%[1]s\n"
	// Listed is the format of sha256sum, as in most releases on GitHub. Assets with
	// the same SumURL share the file, one line each.
	Listed SumForm = "%[1]s  %[2]s\n"
)

// Asset is one file of the mirror, with its checksum file.
type Asset struct {
	File    string // path of the content on this machine
	URL     string // URL at upstream
	SumURL  string // URL of the checksum file at upstream; empty for none
	SumForm SumForm
}

// Kubelet returns the asset of a kubelet, at the URL from which the Kubernetes
// project's own instructions and kubespray download it. version is without the
// "v".
func Kubelet(version, arch, file string) Asset {
	where := fmt.Sprintf("https://dl.k8s.io/release/v%s/bin/linux/%s/kubelet", version, arch)
	return Asset{File: file, URL: where, SumURL: where + ".sha256", SumForm: Bare}
}

// CredentialProvider returns the asset of an ecr-credential-provider, at the
// URL from which kops downloads it. The real site has no version after 1.31
// (https://github.com/kubernetes/cloud-provider-aws/issues/1481).
func CredentialProvider(version, arch, file string) Asset {
	where := fmt.Sprintf("https://artifacts.k8s.io/binaries/cloud-provider-aws/v%s/linux/%s/ecr-credential-provider-linux-%s",
		version, arch, arch)
	return Asset{File: file, URL: where, SumURL: where + ".sha256", SumForm: BareLine}
}

// CNIPlugins returns the asset of the CNI plugins' tarball, at its project's
// release URL.
func CNIPlugins(version, arch, file string) Asset {
	where := fmt.Sprintf("https://github.com/containernetworking/plugins/releases/download/v%s/cni-plugins-linux-%s-v%s.tgz",
		version, arch, version)
	return Asset{File: file, URL: where, SumURL: where + ".sha256", SumForm: Listed}
}

// Containerd returns the asset of containerd's archive, at its project's release
// URL.
func Containerd(version, arch, file string) Asset {
	where := fmt.Sprintf("https://github.com/containerd/containerd/releases/download/v%s/containerd-static-%s-linux-%s.tar.gz",
		version, version, arch)
	return Asset{File: file, URL: where, SumURL: where + ".sha256sum", SumForm: Listed}
}

// Runc returns the asset of a runc, at its project's release URL.
func Runc(version, arch, file string) Asset {
	where := fmt.Sprintf("https://github.com/opencontainers/runc/releases/download/v%s/", version)
	return Asset{File: file, URL: where + "runc." + arch, SumURL: where + "runc.sha256sum", SumForm: Listed}
}

// Place returns the path in a mirror of the file with an upstream URL: a
// relative path with slashes, HOST/PATH. The same path follows a server's URL.
func Place(address string) (string, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("placing in the mirror: %w", err)
	}
	if parsed.Scheme != "https" || parsed.Host == "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", fmt.Errorf("placing %s in the mirror: must be https://HOST/PATH", address)
	}
	place := parsed.Host + parsed.Path
	if !fs.ValidPath(place) || parsed.Path == "" {
		return "", fmt.Errorf("placing %s in the mirror: the path must name a file, without dots and doubled slashes", address)
	}
	return place, nil
}
