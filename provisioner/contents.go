package provisioner

import "github.com/eksnode/packer-plugin-eksnode/distros"

// Contents are the versions of all assets in an image of this spec, by the asset's
// ID. They equal those in the image's manifest but are known before the build.
func Contents(spec Spec, d distros.Distro, arch string) (map[string]string, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	n, err := newNode(spec, d, arch)
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for _, download := range n.downloads {
		versions[download.ID] = download.Version
	}
	for _, w := range n.containers {
		if w.keep {
			versions[pauseAsset] = w.Tag()
		}
	}
	return versions, nil
}
