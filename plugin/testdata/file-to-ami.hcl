source "file" "x" {
  source = "disk.raw"
  target = "output/node.raw"
}
build {
  sources = ["file.x"]
  post-processors {
    post-processor "eksnode-ami" {
      ami_name            = "{{ clean_resource_name build_name }}-{{ .BuilderType }}-${source.name}"
      ami_description     = "built by {{ build_type }}"
      skip_rules          = ["not-a-node"]
      ami_regions         = ["us-east-1"]
      tags                = { "eksnode:distro" = "debian", "builder" = "{{ .BuilderType }}" }
      keep_input_artifact = false
    }
    post-processor "eksnode-publish" {
      parameter = "/nodes/1.34"
    }
    post-processor "manifest" {}
  }
}
