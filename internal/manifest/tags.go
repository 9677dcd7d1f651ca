package manifest

// Tags returns the tags of an AMI with the versions of its assets.
func Tags(kubernetes, distro, arch string, assets map[string]string) map[string]string {
	tags := map[string]string{"eksnode:kubernetes-version": kubernetes, "eksnode:distro": distro, "eksnode:architecture": arch}
	for id, version := range assets {
		tags["eksnode:asset:"+id] = version
	}
	return tags
}

// Tags returns the tags of an AMI of the image.
func (m *Manifest) Tags() map[string]string {
	assets := map[string]string{}
	for _, a := range m.Assets {
		assets[a.ID] = a.Version
	}
	return Tags(m.KubernetesVersion, m.Distro, m.Arch, assets)
}
