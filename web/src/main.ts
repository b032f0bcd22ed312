import { mount } from 'svelte'
import './style/fonts.css'
import './style/base.css'
import './lib/theme.svelte'
import App from './App.svelte'

mount(App, { target: document.getElementById('app')! })
