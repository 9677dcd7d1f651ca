package provisioner

import "github.com/eksnode/packer-plugin-eksnode/distros"

// Contents are the versions of what an image of this spec gets from elsewhere
// than the distribution's packages, by the asset's ID: what its manifest will
// say, known before it is made.
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
