package mirror

import (
	"fmt"
	"io/fs"
	"net/url"
)

// SumForm is what a checksum file says about one asset: a format of the
// SHA-256 in hexadecimal and the asset's file name.
type SumForm string

// The forms that upstreams use.
const (
	// Bare is the sum and nothing else, not even a line break, as dl.k8s.io has it.
	Bare SumForm = "%[1]s"
	// BareLine is the sum and a line break, as Kubernetes' AWS cloud provider has it.
	BareLine SumForm = "%[1]s\n"
	// Listed is what sha256sum prints, as most releases on GitHub have it.
	// Assets with the same SumURL share the file, one line each.
	Listed SumForm = "%[1]s  %[2]s\n"
)

// Asset is one file of the mirror, with its checksum file.
type Asset struct {
	File    string // path of the content on this machine
	URL     string // where upstream has it
	SumURL  string // where upstream has its checksum; empty for none
	SumForm SumForm
}

// Kubelet answers the asset of a kubelet, where the Kubernetes project's own
// instructions and kubespray download it. version is without the "v".
func Kubelet(version, arch, file string) Asset {
	where := fmt.Sprintf("https://dl.k8s.io/release/v%s/bin/linux/%s/kubelet", version, arch)
	return Asset{File: file, URL: where, SumURL: where + ".sha256", SumForm: Bare}
}

// CredentialProvider answers the asset of an ecr-credential-provider, where
// kops downloads it. The real site has nothing newer than 1.31
// (https://github.com/kubernetes/cloud-provider-aws/issues/1481).
func CredentialProvider(version, arch, file string) Asset {
	where := fmt.Sprintf("https://artifacts.k8s.io/binaries/cloud-provider-aws/v%s/linux/%s/ecr-credential-provider-linux-%s",
		version, arch, arch)
	return Asset{File: file, URL: where, SumURL: where + ".sha256", SumForm: BareLine}
}

// CNIPlugins answers the asset of the CNI plugins' tarball, where its project
// releases it.
func CNIPlugins(version, arch, file string) Asset {
	where := fmt.Sprintf("https://github.com/containernetworking/plugins/releases/download/v%s/cni-plugins-linux-%s-v%s.tgz",
		version, arch, version)
	return Asset{File: file, URL: where, SumURL: where + ".sha256", SumForm: Listed}
}

// Place answers where a mirror has what upstream has at address: a relative
// path with slashes, HOST/PATH. It is what follows a server's URL, too.
func Place(address string) (string, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("placing in the mirror: %w", err)
	}
	if parsed.Scheme != "https" || parsed.Host == "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return "", fmt.Errorf("placing %s in the mirror: it must be https://HOST/PATH", address)
	}
	place := parsed.Host + parsed.Path
	if !fs.ValidPath(place) || parsed.Path == "" {
		return "", fmt.Errorf("placing %s in the mirror: its path must name a file, without dots and doubled slashes", address)
	}
	return place, nil
}
