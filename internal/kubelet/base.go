package kubelet

// ClusterCA is the file with the cluster's certificate authority.
const ClusterCA = "/etc/kubernetes/pki/ca.crt"

// Defaults returns the settings that every node gets. Source: amazon-eks-ami, nodeadm,
// July 2026.
func Defaults() map[string]any {
	return map[string]any{
		"kind":       "KubeletConfiguration",
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"address":    "0.0.0.0",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"cacheTTL": "2m0s", "enabled": true},
			"x509":      map[string]any{"clientCAFile": ClusterCA},
		},
		"authorization": map[string]any{
			"mode":    "Webhook",
			"webhook": map[string]any{"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
		},
		"cgroupRoot":            "/",
		"clusterDomain":         "cluster.local",
		"featureGates":          map[string]any{"RotateKubeletServerCertificate": true},
		"hairpinMode":           "hairpin-veth",
		"protectKernelDefaults": true,
		"readOnlyPort":          0,
		"serializeImagePulls":   false,
		"serverTLSBootstrap":    true,
		"tlsCipherSuites": []string{
			"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
			"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
			"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
			"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
			"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
			"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
			"TLS_RSA_WITH_AES_128_GCM_SHA256",
			"TLS_RSA_WITH_AES_256_GCM_SHA384",
		},
	}
}

// AddOfVersion adds the feature gates and periods that EKS sets for a minor version to a
// configuration of the caller.
func AddOfVersion(config map[string]any, minor int) {
	gates := map[string]any{}
	given, _ := config["featureGates"].(map[string]any)
	for name, value := range given {
		gates[name] = value
	}
	config["featureGates"] = gates
	if minor < 28 {
		gates["KubeletCredentialProviders"] = true
	}
	if minor >= 33 {
		gates["DynamicResourceAllocation"] = true
	}
	if minor >= 34 {
		gates["MutableCSINodeAllocatableCount"] = true
		// EC2 gives a terminating instance about three minutes
		// (amazon-eks-ami #2390).
		config["shutdownGracePeriod"], config["shutdownGracePeriodCriticalPods"] = "2m30s", "30s"
	}
}

// ReserveInCgroups ties the reservations to cgroups.
func ReserveInCgroups(config map[string]any) {
	config["systemReservedCgroup"], config["kubeReservedCgroup"] = "/system", "/runtime"
}

// Base returns what first boot configures on a node of unknown size, apart from the
// user's part.
func Base(minor int) map[string]any {
	config := Defaults()
	AddOfVersion(config, minor)
	ReserveInCgroups(config)
	return config
}
