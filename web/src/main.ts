import { mount } from 'svelte'
import './style/fonts.css'
import './style/base.css'
import './lib/theme.svelte'
import { arrive } from './lib/api'
import App from './App.svelte'

arrive()

mount(App, { target: document.getElementById('app')! })
