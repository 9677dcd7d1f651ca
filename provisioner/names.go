package provisioner

import "github.com/eksnode/packer-plugin-eksnode/internal/surface"

// The options that errors name.
const (
	fieldDistro                 surface.Name = "distro"
	fieldAcceptEnded            surface.Name = "accept_ended"
	fieldKubernetesVersion      surface.Name = "kubernetes_version"
	fieldSourceURL              surface.Name = "source_url"
	fieldAllowHTTP              surface.Name = "allow_http"
	fieldSource                 surface.Name = "source"
	fieldEksBuildDate           surface.Name = "eks_build_date"
	fieldLockFile               surface.Name = "lock_file"
	fieldImages                 surface.Name = "images"
	fieldImageArchives          surface.Name = "image_archives"
	fieldPauseImage             surface.Name = "pause_image"
	fieldContainerd             surface.Name = "containerd"
	fieldVersions               surface.Name = "versions"
	fieldChecksums              surface.Name = "checksums"
	fieldPackages               surface.Name = "packages"
	fieldRepositories           surface.Name = "repositories"
	fieldRepositoryKeys         surface.Name = "repository_keys"
	fieldKeepRepositories       surface.Name = "keep_repositories"
	fieldPackageVersions        surface.Name = "package_versions"
	fieldSysctls                surface.Name = "sysctls"
	fieldCaCertificates         surface.Name = "ca_certificates"
	fieldKernelArguments        surface.Name = "kernel_arguments"
	fieldNvidiaContainerToolkit surface.Name = "nvidia_container_toolkit"
	fieldFips                   surface.Name = "fips"
	fieldBootstrap              surface.Name = "bootstrap"
	fieldHardening              surface.Name = "hardening"
)
